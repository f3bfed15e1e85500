//! A web service that refuses a holder which was overtaken: a process takes a lock, is stopped until the lock was
//! granted to another, and is continued in the middle of its work.
//!
//! ```sh
//! cargo run -p lockkeeper --features http --example fenced_http
//! ```

use std::env;
use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::post;
use lockkeeper::fence::http::FenceLayer;
use lockkeeper::fence::{MemoryTokens, TOKEN_HEADER, TokenHeader};
use lockkeeper_zk_server::EmbeddedServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The argument that makes this program the slow holder, followed by the locks' URL and the web service's address.
const SLOW_HOLDER: &str = "slow-holder";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [mode, locks, address] if mode == SLOW_HOLDER => slow_holder(locks, address).await,
        _ => demonstrate().await,
    }
}

/// The resource: each request adds a line. The fence stands before it, and it knows nothing of locks.
async fn serve(ledger: Arc<Mutex<Vec<String>>>) -> Result<String, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let add = move |line: String| async move { ledger.lock().expect("no request has panicked").push(line) };
    let router =
        Router::new().route("/ledger", post(add)).layer(FenceLayer::new("ledger".parse()?, MemoryTokens::new()));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

async fn demonstrate() -> Result<(), Box<dyn Error>> {
    let locks = EmbeddedServer::start().await?;
    let url = format!("{}?session_timeout=4s", locks.url());
    let ledger = Arc::new(Mutex::new(Vec::new()));
    let address = serve(ledger.clone()).await?;

    let mut slow = Command::new(env::current_exe()?)
        .args([SLOW_HOLDER, &url, &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = BufReader::new(slow.stdout.take().expect("it is piped")).lines();
    println!("slow holder: {}", said.next().expect("it has the lock")?);

    signal(&slow, "-STOP")?;
    println!("it is stopped; its session will expire");
    let keeper = lockkeeper::connect(&url)?;
    let guard = keeper.mutex("ledger")?.lock().await?;
    println!("next holder: the lock is ours, with token {}", guard.fencing_token());
    let answer = add(&address, &TokenHeader::from(guard.hold()), "by the next holder").await?;
    println!("next holder: {answer}");

    signal(&slow, "-CONT")?;
    drop(slow.stdin.take()); // what it has waited for in the middle of its work
    let refused = said.next().expect("it goes on")?;
    println!("slow holder: {refused}");
    slow.wait()?;

    assert!(refused.starts_with("412"), "the fence refuses it");
    assert_eq!(*ledger.lock().expect("no request has panicked"), ["by the next holder"]);
    guard.release().await?;
    keeper.close().await?;
    locks.shutdown().await;
    Ok(())
}

/// Takes the lock, checks it, and is slow before it writes.
async fn slow_holder(locks: &str, address: &str) -> Result<(), Box<dyn Error>> {
    let keeper = lockkeeper::connect(locks)?;
    let guard = keeper.mutex("ledger")?.lock().await?;
    assert!(guard.hold().is_held());
    println!("the lock is ours, with token {}", guard.fencing_token());

    // Between the check and the write. No check helps against a stop right here.
    std::io::stdin().lines().next();

    let answer = add(address, &TokenHeader::from(guard.hold()), "by the slow holder").await?;
    println!("{answer}");
    Ok(())
}

/// Adds a line to the ledger; returns the status of the answer, and its body.
async fn add(address: &str, token: &TokenHeader, line: &str) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address).await?;
    let length = line.len();
    let request = format!(
        "POST /ledger HTTP/1.1\r\nhost: {address}\r\n{TOKEN_HEADER}: {token}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{line}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let (head, body) = response.split_once("\r\n\r\n").ok_or("no answer")?;
    let status = head.split(' ').nth(1).ok_or("no status")?;
    Ok(format!("{status} {}", body.trim_end()))
}

fn signal(process: &Child, signal: &str) -> Result<(), Box<dyn Error>> {
    Command::new("kill").args([signal, &process.id().to_string()]).status()?;
    Ok(())
}
