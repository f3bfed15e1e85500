//! A server in a program without a runtime.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use lockkeeper_faults::wait::PATIENCE;
use lockkeeper_zk_server::EmbeddedServer;

use crate::client::{Client, create};

fn connected(server: &EmbeddedServer) -> TcpStream {
    let stream = TcpStream::connect(server.address().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn a_program_without_a_runtime_is_served_until_it_drops_the_server_and_then_no_more() {
    let server = EmbeddedServer::start_blocking().unwrap();
    let mut asking = connected(&server);
    asking.write_all(b"ruok").unwrap();
    let mut answer = String::new();
    asking.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "imok");
    let mut idle = connected(&server);
    idle.set_nonblocking(true).unwrap();
    drop(server);
    let read = idle.read(&mut [0; 1]).or_else(|error| match error.kind() {
        ErrorKind::ConnectionReset => Ok(0),
        _ => Err(error),
    });
    assert_eq!(read.unwrap(), 0, "the connection is closed before the drop is over");
}

#[test]
fn a_server_without_a_runtime_answers_what_it_is_asked_and_ends_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let start = || EmbeddedServer::builder().data_dir(folder.path()).start_blocking().unwrap();
    let first = start();
    first.block_on(async { Client::tcp(&first).await.ask(create("/kept")).await }).unwrap().unwrap();
    let nodes = first.block_on(first.nodes_count());
    first.shutdown();
    let found = start().recovered().cloned().unwrap();
    assert_eq!((found.nodes, found.transactions), (nodes, 0), "a snapshot has it all");
}
