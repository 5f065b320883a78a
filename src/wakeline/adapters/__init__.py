"""What brings a doorbell to one kind of receiver: a module per kind, each with one method, `deliver`."""
