//! Fences on real resources, in rounds: holders that are overtaken between their check and their write.

mod databases;
mod file;
mod rounds;
mod services;
