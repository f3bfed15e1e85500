//! Data in the services that have locks: ZooKeeper, etcd and Redis.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockkeeper::fence::zookeeper::{Client, Config, NewNode, is_overtaken, transaction};
use lockkeeper::fence::{etcd as fence_etcd, redis as fence_redis};
use lockkeeper::{FencingToken, Hold, Keeper, ServiceUrl};
use lockkeeper_faults::{etcd, redis as faults_redis};
use lockkeeper_zk_server::EmbeddedServer;
use redis::aio::MultiplexedConnection;

use crate::rounds::{can_run, compare, ledger, steps, tokens};

fn keepers(url: &ServiceUrl) -> [Keeper; 2] {
    [lockkeeper::connect(url.clone()).unwrap(), lockkeeper::connect(url.clone()).unwrap()]
}

#[tokio::test]
async fn an_overtaken_holder_changes_no_node_of_zookeeper_in_a_fenced_transaction() {
    let server = EmbeddedServer::start().await.unwrap();
    let url: ServiceUrl = server.url().parse().unwrap();
    let (keepers, config) = (keepers(&url), Config::from_url(&url).unwrap());
    let client = Client::connect(&config).await.unwrap();
    for is_fenced in [true, false] {
        client.create(NewNode::persistent(format!("/{}", ledger(is_fenced)))).await.unwrap();
    }
    let write = async |hold: &Hold, pause, is_fenced| {
        steps(pause).await;
        let prefix = format!("/{}/{}-", ledger(is_fenced), hold.fencing_token());
        let entry = NewNode::new(prefix, lockkeeper_zk_proto::message::CreateMode::PersistentSequential);
        if !is_fenced {
            return client.create(entry).await.map(|_| true).unwrap();
        }
        match transaction(&client, &config, hold).unwrap().create(entry).commit().await {
            Ok(_) => true,
            Err(error) => {
                assert!(is_overtaken(&error, &config, hold), "{error}");
                false
            }
        }
    };
    let written = async |is_fenced| {
        let (mut names, _) = client.get_children(&format!("/{}", ledger(is_fenced))).await.unwrap();
        names.sort_by_key(|name| name[name.len() - 10..].to_owned());
        tokens(names.iter().map(|name| &name[..name.len() - 11]))
    };
    compare("ZooKeeper", &keepers, write, written).await;
    client.close().await.unwrap();
    server.shutdown().await;
}

/// Asks etcd in JSON; its answer.
async fn ask(server: &etcd::Server, path: &str, request: serde_json::Value) -> serde_json::Value {
    let answer = etcd::Server::ask(server.address(), path, &request.to_string()).await.unwrap();
    serde_json::from_str(&answer).unwrap()
}

fn coded(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// The values below a key, in the order in which their keys were made.
async fn values(server: &etcd::Server, key: &str) -> Vec<FencingToken> {
    let end = format!("{}0", &key[..key.len() - 1]);
    let request = serde_json::json!({
        "key": coded(key), "range_end": coded(end), "sort_target": "CREATE", "sort_order": "ASCEND",
    });
    let answer = ask(server, "/v3/kv/range", request).await;
    let values = answer["kvs"].as_array().cloned().unwrap_or_default();
    let text = |kv: &serde_json::Value| String::from_utf8(STANDARD.decode(kv["value"].as_str().unwrap()).unwrap());
    let values: Vec<_> = values.iter().map(|kv| text(kv).unwrap()).collect();
    tokens(values.iter().map(String::as_str))
}

#[tokio::test]
async fn an_overtaken_holder_puts_no_key_of_etcd_in_a_fenced_transaction() {
    if !can_run(etcd::availability()) {
        return;
    }
    let server = etcd::Server::standalone().await.unwrap();
    let url: ServiceUrl = format!("etcd://{}", server.address()).parse().unwrap();
    let keepers = keepers(&url);
    let write = async |hold: &Hold, pause, is_fenced| {
        steps(pause).await;
        let (key, token) =
            (format!("{}/{}", ledger(is_fenced), hold.fencing_token()), hold.fencing_token().to_string());
        let put = serde_json::json!([{"request_put": {"key": coded(key), "value": coded(token)}}]);
        let mut request = serde_json::json!({"success": put});
        if is_fenced {
            let mine = fence_etcd::contender_key(&url, hold).unwrap();
            request["compare"] = serde_json::json!([{
                "key": coded(mine.key), "target": "CREATE", "result": "EQUAL",
                "create_revision": mine.create_revision.to_string(),
            }]);
        }
        ask(&server, "/v3/kv/txn", request).await["succeeded"] == true
    };
    let written = async |is_fenced| values(&server, &format!("{}/", ledger(is_fenced))).await;
    compare("etcd", &keepers, write, written).await;
}

/// Adds a token to a list, unless it was overtaken.
fn adding() -> redis::Script {
    let write = "local greatest = overtaken(KEYS[1], ARGV[1])\nif greatest then return greatest end\n\
                 redis.call('RPUSH', KEYS[2], ARGV[2])\nreturn false";
    redis::Script::new(&format!("{}{write}", fence_redis::CHECK))
}

async fn connect(server: &faults_redis::Server) -> MultiplexedConnection {
    let client = redis::Client::open(format!("redis://{}", server.address())).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

#[tokio::test]
async fn an_overtaken_holder_changes_no_key_of_redis_by_a_fenced_script() {
    if !can_run(faults_redis::availability()) {
        return;
    }
    let server = faults_redis::Server::standalone().await.unwrap();
    let url: ServiceUrl = format!("redis://{}", server.address()).parse().unwrap();
    let (keepers, connection, script) = (keepers(&url), connect(&server).await, adding());
    let write = async |hold: &Hold, pause, is_fenced: bool| {
        steps(pause).await;
        let (token, mut connection) = (hold.fencing_token(), connection.clone());
        if !is_fenced {
            let mut push = redis::cmd("RPUSH");
            let _: i64 = push.arg("plain").arg(token.to_string()).query_async(&mut connection).await.unwrap();
            return true;
        }
        let mut call = script.key(fence_redis::token_key(hold.name(), "fenced").unwrap());
        let call = call.key("fenced").arg(fence_redis::token_text(token)).arg(token.to_string());
        let greatest: Option<String> = call.invoke_async(&mut connection).await.unwrap();
        assert!(greatest.as_deref().is_none_or(|text| fence_redis::parse_token(text).unwrap() > token));
        greatest.is_none()
    };
    let written = async |is_fenced| {
        let mut range = redis::cmd("LRANGE");
        let list = range.arg(ledger(is_fenced)).arg(0).arg(-1).query_async(&mut connection.clone()).await;
        let texts: Vec<String> = list.unwrap();
        tokens(texts.iter().map(String::as_str))
    };
    compare("Redis", &keepers, write, written).await;
}

#[tokio::test]
async fn redis_compares_tokens_of_each_lock_in_whole_and_keeps_them_over_a_restart() {
    if !can_run(faults_redis::availability()) {
        return;
    }
    let mut server = faults_redis::Setup::new().append_only(faults_redis::Flush::Always).start().await.unwrap();
    let mut connection = connect(&server).await;
    let set = redis::Script::new(fence_redis::SET);
    let write = async |connection: &mut MultiplexedConnection, lock: &str, token: &str, data: &str| {
        let mut call = set.key(fence_redis::token_key(&lock.parse().unwrap(), "data").unwrap());
        call.key("data").arg(token).arg(data).invoke_async::<Option<String>>(connection).await
    };
    let text = |token: &str| fence_redis::token_text(token.parse().unwrap());
    for (lock, token, greatest) in [
        ("x", "9007199254740993", None),
        ("x", "9007199254740993", None),
        ("x", "9007199254740992", Some("9007199254740993")),
        ("x", "9007199254740993.3", None),
        ("x", "9007199254740993.2", Some("9007199254740993.3")),
        ("y", "7", None),
        ("x", "9223372036854775807", None),
    ] {
        let answer = write(&mut connection, lock, &text(token), token).await.unwrap();
        assert_eq!(answer, greatest.map(text), "{lock} {token}");
    }
    server.restart().await.unwrap();
    let mut connection = connect(&server).await;
    let answer = write(&mut connection, "x", &text("9223372036854775806"), "late").await.unwrap();
    assert_eq!(answer, Some(text("9223372036854775807")));
    for wrong in [
        "",
        "8",
        "-000000000000000008.0000000000",
        "9223372036854775808.0000000000",
        "0000000000000000008.4294967296",
        "0000000000000000008,0000000000",
    ] {
        let refused = write(&mut connection, "y", wrong, "wrong").await;
        assert!(refused.expect_err(wrong).to_string().contains("token"), "{wrong}");
    }
    let data: String = redis::cmd("GET").arg("data").query_async(&mut connection).await.unwrap();
    assert_eq!(data, "9223372036854775807", "nothing else was written");
}
