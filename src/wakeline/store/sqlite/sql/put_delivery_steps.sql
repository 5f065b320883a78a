INSERT INTO delivery_steps ({delivery_step}) VALUES (?, ?, ?, ?, ?, ?, ?)
