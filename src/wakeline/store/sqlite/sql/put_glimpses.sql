INSERT INTO glimpses ({glimpse}) VALUES (?, ?, ?, ?, ?)
