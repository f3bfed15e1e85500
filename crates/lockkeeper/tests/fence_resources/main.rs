//! Fences on real resources: what they compare, and rounds of holders that are overtaken between their check and their
//! write.

mod databases;
mod examples;
mod file;
mod http;
mod rounds;
mod services;
mod sqlite;
