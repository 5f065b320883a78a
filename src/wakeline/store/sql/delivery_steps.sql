SELECT {delivery_step} FROM delivery_steps WHERE delivery_id = :delivery_id ORDER BY number
