"""Types of columns as both runners store them, without Spark, and how rows fit the columns of a dataset."""
