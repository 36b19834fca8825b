//! What is generated from the table.
