//! Locks on ZooKeeper: a bare socket that sends the requests of a lock and reads no more than it must, and the crate
//! `zookeeper-client`.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, LockOptions, LockPrefix};

use crate::load::Outcome;

/// Long enough that a measurement needs no ping between two turns of the others.
const SESSION_TIMEOUT_MS: i32 = 40_000;

/// The longest reply, in bytes: the list of a queue that no other client uses is far shorter.
const REPLY_BYTES_MAX: i32 = 64 * 1024;

const NODE_EXISTS: i32 = -110;

const DELETE: i32 = 2;
const GET_CHILDREN: i32 = 8;
const CREATE2: i32 = 15;
const PERSISTENT: i32 = 0;
const EPHEMERAL_SEQUENTIAL: i32 = 3;
const ALL_PERMISSIONS: i32 = 31;

/// A session on a socket.
#[derive(Debug)]
pub(crate) struct BareLock {
    stream: TcpStream,
    /// The path of the queue's node.
    path: String,
    last_xid: i32,
}

impl BareLock {
    pub(crate) async fn open(address: SocketAddr, path: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut lock = Self { stream, path: path.to_owned(), last_xid: 0 };
        let mut request = vec![0; 12];
        request.extend(SESSION_TIMEOUT_MS.to_be_bytes());
        request.extend([0; 8]);
        request.extend(buffer(&[0; 16]));
        lock.stream.write_all(&buffer(&request)).await?;
        lock.reply().await?;
        let create = lock.create(path, PERSISTENT);
        lock.stream.write_all(&create).await?;
        lock.reply().await?;
        Ok(lock)
    }

    /// Makes the node and lists the queue in one segment, then deletes the node.
    pub(crate) async fn lock_and_release(&mut self) -> io::Result<()> {
        let name = format!("{}/_c_01234567-89ab-cdef-0123-456789abcdef-lock-", self.path);
        let create = self.create(&name, EPHEMERAL_SEQUENTIAL);
        let list = [buffer(self.path.as_bytes()), vec![0]];
        let both = [create, self.request(GET_CHILDREN, &list.concat())];
        self.stream.write_all(&both.concat()).await?;
        let created = self.reply().await?;
        self.reply().await?;
        // Behind the reply's 16 bytes of header: the node's path.
        let length = i32::from_be_bytes(created[16..20].try_into().expect("four bytes")) as usize;
        let delete = [buffer(&created[20..20 + length]), (-1_i32).to_be_bytes().to_vec()];
        let delete = self.request(DELETE, &delete.concat());
        self.stream.write_all(&delete).await?;
        self.reply().await.map(drop)
    }

    fn create(&mut self, path: &str, mode: i32) -> Vec<u8> {
        let fields = [
            buffer(path.as_bytes()),
            buffer(&[b'x'; 90]),
            1_i32.to_be_bytes().to_vec(),
            ALL_PERMISSIONS.to_be_bytes().to_vec(),
            buffer(b"world"),
            buffer(b"anyone"),
            mode.to_be_bytes().to_vec(),
        ];
        self.request(CREATE2, &fields.concat())
    }

    fn request(&mut self, operation: i32, body: &[u8]) -> Vec<u8> {
        self.last_xid += 1;
        buffer(&[&self.last_xid.to_be_bytes(), &operation.to_be_bytes(), body].concat())
    }

    async fn reply(&mut self) -> io::Result<Vec<u8>> {
        let length = self.stream.read_i32().await?;
        if !(0..=REPLY_BYTES_MAX).contains(&length) {
            return Err(io::Error::other(format!("a reply of {length} bytes")));
        }
        let mut reply = vec![0; length as usize];
        self.stream.read_exact(&mut reply).await?;
        let error = reply.get(12..16).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
        match error {
            // The first reply opens the session: it has no such field.
            Some(error) if self.last_xid > 0 && ![0, NODE_EXISTS].contains(&error) => {
                Err(io::Error::other(format!("the server refused a request: {error}")))
            }
            _ => Ok(reply),
        }
    }
}

/// Bytes after their length, as frames and strings are sent.
fn buffer(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as i32).to_be_bytes(), bytes].concat()
}

const SESSION_TIMEOUT: Duration = Duration::from_secs(20);
const ANCESTORS: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

#[derive(Debug)]
pub(crate) struct ClientLock {
    client: Client,
    path: &'static str,
}

impl ClientLock {
    pub(crate) async fn open(address: &str, path: &'static str) -> Outcome<Self> {
        let client = Client::connector().with_session_timeout(SESSION_TIMEOUT).connect(address).await?;
        Ok(Self { client, path })
    }

    /// Its node is deleted behind the drop: no caller can wait for that.
    pub(crate) async fn lock_and_drop(&self) -> Outcome<()> {
        let prefix = LockPrefix::new_curator(self.path, "lock-")?;
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(ANCESTORS)?;
        drop(self.client.lock(prefix, b"", options).await?);
        Ok(())
    }
}
