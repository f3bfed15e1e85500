//! PostgreSQL: its functions, and how they are called.

mod text;
