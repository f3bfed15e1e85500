//! What an examination finds of real servers, over which rights and through what.

mod finding;
mod mariadb;
mod postgres;
