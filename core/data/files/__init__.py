"""Reading, converting and writing of data files, in processes of their own with limits."""
