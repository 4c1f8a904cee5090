"""Tables, figures and the report page of a run, made from the records that other stages wrote."""
