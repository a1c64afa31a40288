"""Who a record is: named attributes, their values, and the cells of the domain."""
