//! Pictures of what is stored: a line for each thing, with what differs from run to run replaced by a word.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use lockkeeper::Owner;
use lockkeeper_faults::{etcd, redis};
use lockkeeper_zk_proto::message::{Create, MultiOperation, ZkRequest};
use parking_lot::Mutex;

/// From how many digits on a number is another one in each run: a time, a token, a revision, a session.
const DIGITS_MIN: usize = 5;

/// From how many hexadecimal digits on a word is a ticket, a session or another one that was drawn.
const DRAWN_MIN: usize = 12;

/// The lines in order, each once, without what differs from run to run.
pub(crate) fn normal(lines: Vec<String>) -> String {
    let host = Owner::this_process().host;
    // A short name of a machine may be a part of other words.
    let [before, quoted] = [format!("owner = {host} "), format!("\"host\":\"{host}\"")];
    let normal = |line: &String| plain(&line.replace(&before, "owner = HOST ").replace(&quoted, "\"host\":\"HOST\""));
    let lines: BTreeSet<_> = lines.iter().map(normal).collect();
    lines.into_iter().map(|line| line + "\n").collect()
}

fn plain(line: &str) -> String {
    let (mut plain, mut rest) = (String::new(), line);
    while let Some(first) = rest.chars().next() {
        if rest.as_bytes().get(..UUID_BYTES).is_some_and(is_uuid) {
            plain.push_str("DRAWN");
            rest = &rest[UUID_BYTES..];
            continue;
        }
        let word = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if word == 0 {
            plain.extend(first.escape_default());
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, behind) = rest.split_at(word);
        plain.push_str(plain_word(word));
        rest = behind;
    }
    plain.trim_end().to_owned()
}

fn plain_word(word: &str) -> &str {
    let is_of = |word: &str, is: fn(&u8) -> bool| word.bytes().all(|byte| is(&byte));
    let is_flow =
        || word.strip_prefix(['h', 't']).is_some_and(|rest| !rest.is_empty() && is_of(rest, u8::is_ascii_digit));
    match () {
        () if word.len() >= DRAWN_MIN && is_of(word, u8::is_ascii_hexdigit) => "DRAWN",
        () if word.len() >= DIGITS_MIN && is_of(word, u8::is_ascii_digit) => "NUMBER",
        () if word == std::process::id().to_string() => "NUMBER",
        () if is_flow() => "FLOW",
        () => word,
    }
}

const UUID_BYTES: usize = 36;

fn is_uuid(text: &[u8]) -> bool {
    let is_right = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.iter().enumerate().all(is_right)
}

/// The files below a folder: kind, path and content.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let entry = entry.expect("an entry");
            let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
            let name = path.strip_prefix(folder).expect("it lies there").display().to_string();
            if kind.is_dir() {
                lines.push(format!("folder {name}"));
                left.push(path);
            } else if kind.is_file() {
                let content = fs::read(&path).expect("it is read");
                lines.push(format!("file {name}: {}", String::from_utf8_lossy(&content)));
            } else {
                lines.push(format!("pipe {name}"));
            }
        }
    }
    lines
}

/// All keys of an etcd with their values.
pub(crate) async fn etcd_keys(server: &etcd::Server) -> Vec<String> {
    // From the least key on, all.
    let all = r#"{"key": "AA==", "range_end": "AA=="}"#;
    let answer = etcd::Server::ask(server.address(), "/v3/kv/range", all).await.expect("an answer");
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    let text = |value: &serde_json::Value| {
        let bytes = BASE64_STANDARD.decode(value.as_str().unwrap_or_default()).expect("base64");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let keys = answer["kvs"].as_array().expect("keys");
    keys.iter().map(|kv| format!("{}: {}", text(&kv["key"]), text(&kv["value"]))).collect()
}

/// All keys of a Redis with their kinds and what they have.
pub(crate) async fn redis_keys(server: &redis::Server) -> Vec<String> {
    let keys: Vec<String> = server.ask(&["KEYS", "*"]).await.expect("the keys");
    let sessions: Vec<String> = server.ask(&["ZRANGE", "{lockkeeper}:ss", "0", "-1"]).await.expect("the sessions");
    let mut lines = Vec::new();
    for key in keys {
        let kind: String = server.ask(&["TYPE", &key]).await.expect("a kind");
        let all: Vec<String> = match kind.as_str() {
            "string" => vec![server.ask(&["GET", &key]).await.expect("a value")],
            "hash" => server.ask(&["HGETALL", &key]).await.expect("its fields"),
            "zset" => server.ask(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await.expect("its members"),
            "set" => server.ask(&["SMEMBERS", &key]).await.expect("its members"),
            "list" => server.ask(&["LRANGE", &key, "0", "-1"]).await.expect("its elements"),
            other => panic!("{key} is a {other}"),
        };
        if kind == "string" || kind == "list" {
            lines.push(format!("{kind} {key}: {}", all.join(" | ")));
        } else if key == "{lockkeeper}" {
            // The service's time and its like.
            lines.extend(all.chunks(2).map(|pair| format!("{kind} {key}: {}", pair[0])));
        } else {
            let width = if kind == "set" { 1 } else { 2 };
            lines.extend(all.chunks(width).map(|pair| format!("{kind} {key}: {}", pair.join(" = "))));
        }
    }
    let without = |line: String| sessions.iter().fold(line, |line, session| line.replace(&**session, "SESSION"));
    lines.into_iter().map(without).collect()
}

/// What was made and written on a ZooKeeper, as a hook of its requests has seen it.
#[derive(Clone, Default)]
pub(crate) struct SeenNodes(Arc<Mutex<Vec<String>>>);

impl SeenNodes {
    pub(crate) fn see(&self, request: &ZkRequest) {
        match request {
            ZkRequest::Create(create) | ZkRequest::Create2(create) | ZkRequest::CreateContainer(create) => {
                self.made(create);
            }
            ZkRequest::SetData { path, data, .. } => self.write("written", path, data.as_deref()),
            ZkRequest::Multi(operations) => operations.iter().for_each(|operation| match operation {
                MultiOperation::Create(create) | MultiOperation::Create2(create) => self.made(create),
                _ => {}
            }),
            _ => {}
        }
    }

    fn made(&self, create: &Create) {
        self.write(&format!("{:?}", create.mode), &create.path, create.data.as_deref());
    }

    fn write(&self, what: &str, path: &str, data: Option<&[u8]>) {
        let data = data.map(String::from_utf8_lossy).unwrap_or_default();
        self.0.lock().push(format!("{what} {path}: {data}"));
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// What a PostgreSQL has of ours: columns, functions, and contenders.
pub(crate) const POSTGRES: [&str; 3] = [
    "SELECT format('column %s.%s %s', table_name, column_name, data_type) FROM information_schema.columns \
     WHERE table_schema = 'lockkeeper'",
    "SELECT format('function %s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) FROM pg_proc p \
     WHERE p.pronamespace = 'lockkeeper'::regnamespace",
    "SELECT 'contender ' || row_to_json(c) FROM lockkeeper.contender c",
];

/// The same of a MariaDB.
pub(crate) const MARIADB: [&str; 2] = [
    "SELECT CONCAT('column ', TABLE_NAME, '.', COLUMN_NAME, ' ', COLUMN_TYPE) FROM information_schema.COLUMNS \
     WHERE TABLE_SCHEMA = 'lockkeeper'",
    "SELECT CONCAT('procedure ', SPECIFIC_NAME, ' ', ORDINAL_POSITION, ' ', PARAMETER_NAME, ' ', DTD_IDENTIFIER) \
     FROM information_schema.PARAMETERS WHERE SPECIFIC_SCHEMA = 'lockkeeper' AND ORDINAL_POSITION > 0",
];
