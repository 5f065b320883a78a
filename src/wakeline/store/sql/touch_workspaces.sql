UPDATE workspaces SET version = version + 1
