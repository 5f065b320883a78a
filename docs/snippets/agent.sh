# What a shell script of an agent does: read its mail, answer each message, mark it as read.
wakeline agent add @counter | grep ^eyJ > counter.token     # once, by the human
wakeline send @counter 'How many files are there?'      # also by the human

export WAKELINE_TOKEN_FILE=counter.token                # from here on we are @counter
for id in $(wakeline inbox -o json | grep -o '"message_id": "[^"]*"' | cut -d '"' -f 4); do
  wakeline send --reply-to "$id" "There are $(ls | wc -l)."
  wakeline ack "$id"
done
