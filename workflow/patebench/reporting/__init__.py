"""Tables, figures and the report, made from the records that the other stages wrote."""
