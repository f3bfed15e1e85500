//! Databases that are not as they should be: what a program is told, in one line, and that nothing is left there.

mod locking;
mod mariadb;
mod postgres;
