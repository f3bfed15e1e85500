//! The answers of a server: what scripts answer, what a refusal says, and what a failure of this end means.

use lockkeeper_session::{Effect, Failure, FailureKind, GIVE_CREDENTIALS, Server};
use redis::{RedisError, ServerError, Value};

/// The longest text of a server that is repeated to a user, in characters: its own texts are shorter.
const DETAIL_CHARS_MAX: usize = 300;

/// Returns what a server answered, or why it refused. `what` names the command or the script.
pub(crate) fn answer(value: Value, what: &str) -> Result<Value, Failure> {
    match value {
        Value::ServerError(error) => Err(refusal(&error, what)),
        value => Ok(value),
    }
}

/// Whether a command was refused since the server does not have its script.
pub(super) fn lacks_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

/// What servers say of a user who may not use the keys, to a command and to one inside a script.
const LACKS_KEYS: [&str; 3] =
    ["ermissions to access a key", "ermissions to access one of the keys", "can't access at least one of the keys"];

/// Says which right a user lacks to a script: the command, where the server names only the script's line, or the keys,
/// which it does not name.
pub(super) fn explained(value: Value, source: &str, base: &str) -> Value {
    let Value::ServerError(error) = &value else {
        return value;
    };
    let detail = error.details().unwrap_or_default();
    let lacks_keys = LACKS_KEYS.iter().any(|words| detail.contains(words));
    let detail = match denied_command(detail, source) {
        Some(command) => format!("this user has no permissions to run the '{command}' command"),
        None if lacks_keys => {
            format!("it may not use the keys {base}*; an administrator allows it by: ACL SETUSER <user> ~{base}*")
        }
        None => return value,
    };
    let named = redis::make_extension_error("NOPERM".to_owned(), Some(detail)).into_server_errors();
    named.and_then(|errors| errors.first().cloned()).map_or(value, |(_, error)| Value::ServerError(error))
}

/// Finds the command in the line of a script that a refusal names.
fn denied_command(detail: &str, source: &str) -> Option<String> {
    if !detail.contains("can't run this command") {
        return None;
    }
    let (_, line) = detail.rsplit_once("user_script:")?;
    let line = line.trim_start().split(|letter: char| !letter.is_ascii_digit()).next()?;
    let line = source.lines().nth(line.parse::<usize>().ok()?.checked_sub(1)?)?;
    let (_, call) = line.split_once("call('")?;
    call.split_once('\'').map(|(command, _)| command.to_lowercase())
}

pub(super) fn refusal(error: &ServerError, what: &str) -> Failure {
    let detail = one_line(error.details().unwrap_or_default());
    let (code, detail) = innermost(error.code(), &detail);
    let (kind, message) = match code {
        "MOVED" => return moved(detail),
        "NOAUTH" => (FailureKind::Refused, format!("the server asks for a password{GIVE_CREDENTIALS}")),
        "WRONGPASS" => (FailureKind::Refused, WRONG_PASSWORD.to_owned()),
        "NOPERM" => (FailureKind::Refused, format!("the user lacks the right to {what}: {detail}")),
        "DENIED" => (FailureKind::Refused, format!("the server takes no connections from here: {detail}")),
        "READONLY" => (FailureKind::ReadOnly, "the server is a replica, which takes no writes".to_owned()),
        "LOADING" => (FailureKind::Unavailable, "the server is loading its data".to_owned()),
        "MASTERDOWN" => (FailureKind::Unavailable, "the server is a replica that has lost its master".to_owned()),
        "CLUSTERDOWN" => (FailureKind::Unavailable, format!("the cluster is down: {detail}")),
        "BUSY" => (FailureKind::Unavailable, "the server is busy with a script that takes long".to_owned()),
        "ASK" | "TRYAGAIN" => (FailureKind::Unavailable, ON_THE_WAY.to_owned()),
        "MISCONF" => (FailureKind::Unavailable, format!("the server takes no writes now: {detail}")),
        "OOM" => (FailureKind::Full, "the server's memory is full: free some, or raise `maxmemory`".to_owned()),
        "NOREPLICAS" => {
            let message = "the master has fewer good replicas than its `min-replicas-to-write` asks for";
            (FailureKind::TooFewReplicas, message.to_owned())
        }
        "NOSCRIPT" => (FailureKind::Broken, "the server's scripts were removed".to_owned()),
        "NOPROTO" => return refusal_of_hello(detail),
        _ => return of_text(code, detail, what),
    };
    Failure::new(kind, Effect::None, message)
}

/// Judges a refusal whose code says nothing.
fn of_text(code: &str, detail: &str, what: &str) -> Failure {
    let has = |words: &str| detail.contains(words);
    let (kind, message) = if has("max number of clients") {
        (FailureKind::Unavailable, "the server has its greatest number of connections (`maxclients`)".to_owned())
    } else if has("The user executing the script") || has("ACL failure in script") {
        (FailureKind::Refused, format!("the user lacks the right to {what}: {detail}"))
    } else if has("non local key") {
        // The script's changes to the keys that are still there remain.
        return Failure::new(FailureKind::Unavailable, Effect::Unknown, ON_THE_WAY);
    } else if what == HELLO {
        return refusal_of_hello(detail);
    } else if has("unknown command") || has("nknown subcommand") {
        (FailureKind::Unsupported, format!("the server has no {what}, which locks need: {detail}"))
    } else {
        // A script that fails halfway has made its changes until then.
        let effect = if has("user_script") || has("script:") { Effect::Unknown } else { Effect::None };
        return Failure::new(FailureKind::Other, effect, format!("{what}: {code} {detail}"));
    };
    Failure::new(kind, Effect::None, message)
}

const ON_THE_WAY: &str = "the keys are on the way to another server of the cluster";

/// The command that begins to speak RESP3.
pub(super) const HELLO: &str = "HELLO";

/// Says that a server does not speak RESP3.
pub(super) fn refusal_of_hello(detail: &str) -> Failure {
    let message =
        format!("the server does not speak RESP3, which locks need (a proxy, or a server before 6.2?): {detail}");
    Failure::new(FailureKind::Unsupported, Effect::None, message)
}

fn moved(detail: &str) -> Failure {
    let node = detail.split_ascii_whitespace().nth(1).and_then(node);
    let message = match &node {
        Some(Server { name, port, .. }) if name.is_empty() => {
            format!("the keys lie on another server of the cluster, at port {port} of the same host")
        }
        Some(node) => format!("the keys lie on another server of the cluster, {node}"),
        None => "the keys lie on another server of the cluster, which it does not name".to_owned(),
    };
    Failure::moved(message, node)
}

/// Reads the name of a server as those of a cluster give it: an address of IPv6 has no brackets there, and a name that
/// the cluster was not told is `?`. No name at all is that of the server that was asked.
fn node(text: &str) -> Option<Server> {
    let (name, port) = text.rsplit_once(':')?;
    let name = name.trim_matches(['[', ']']);
    let port = port.parse().ok().filter(|&port: &u16| port != 0)?;
    (name != "?").then(|| Server::new(name, port))
}

/// Finds what a command in a script was refused for: before Redis 7 it stands behind a text about the script.
fn innermost<'a>(code: &'a str, detail: &'a str) -> (&'a str, &'a str) {
    let of_script = || detail.split_once("user_script").and_then(|(_, rest)| rest.split_once(": -"));
    match (code, of_script()) {
        ("ERR", Some((_, inner))) => inner.split_once(' ').unwrap_or((inner, "")),
        _ => (code, detail),
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(DETAIL_CHARS_MAX).collect()
}

pub(crate) fn list(value: Value) -> Result<Vec<Value>, Failure> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(Failure::unexpected()),
    }
}

pub(crate) fn text(value: Value) -> Result<String, Failure> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| Failure::unexpected()),
        Value::SimpleString(text) => Ok(text),
        _ => Err(Failure::unexpected()),
    }
}

pub(crate) fn texts(value: Value) -> Result<Vec<String>, Failure> {
    list(value)?.into_iter().map(text).collect()
}

/// Reads a number that is not negative.
pub(crate) fn number(value: &Value) -> Result<u64, Failure> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| Failure::unexpected()),
        _ => Err(Failure::unexpected()),
    }
}

/// Reads the only answer of a batch.
pub(crate) fn only(answers: Vec<Value>) -> Result<Value, Failure> {
    <[Value; 1]>::try_from(answers).map(|[answer]| answer).map_err(|_| Failure::unexpected())
}

/// The message about credentials that the server refuses.
pub(super) const WRONG_PASSWORD: &str = "the password is wrong, or the server does not know the user";

/// Judges a failure of this end: the connection has ended, or what came over it is no answer.
pub(super) fn of_transport(error: RedisError, effect: Effect) -> Failure {
    let failure = match error.kind() {
        redis::ErrorKind::Parse => {
            Failure::new(FailureKind::Protocol, effect, "the server does not speak as Redis does")
        }
        // The crate `redis` has dropped the server's message.
        redis::ErrorKind::AuthenticationFailed => {
            return Failure::new(FailureKind::Refused, Effect::None, WRONG_PASSWORD);
        }
        _ => Failure::broken(effect),
    };
    failure.caused_by(error)
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{Advice, ErrorKind, Operation};
    use redis::parse_redis_value;

    use super::*;

    fn refused(text: &str, what: &str) -> Failure {
        let value = parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("an answer");
        answer(value, what).expect_err("it is a refusal")
    }

    #[test]
    fn every_refusal_is_one_line_that_says_what_can_help() {
        use Advice::{Permanent, Transient};
        for (text, kind, advice, words) in [
            ("NOAUTH Authentication required.", ErrorKind::Refused, Permanent, "asks for a password"),
            ("WRONGPASS invalid username-password pair", ErrorKind::Refused, Permanent, "password is wrong"),
            ("NOPERM this user may not run the 'wait' command", ErrorKind::Refused, Permanent, "'wait'"),
            ("NOPERM No permissions to access a key", ErrorKind::Refused, Permanent, "right to join"),
            ("DENIED Redis is running in protected mode", ErrorKind::Refused, Permanent, "protected mode"),
            ("READONLY You can't write against a replica.", ErrorKind::ConnectionLost, Transient, "replica"),
            ("LOADING Redis is loading the dataset", ErrorKind::ConnectionLost, Transient, "loading"),
            ("MASTERDOWN RedisLink with MASTER is down", ErrorKind::ConnectionLost, Transient, "lost its master"),
            ("CLUSTERDOWN Hash slot not served", ErrorKind::ConnectionLost, Transient, "slot not served"),
            ("BUSY Redis is busy running a script", ErrorKind::ConnectionLost, Transient, "busy"),
            ("OOM command not allowed", ErrorKind::LimitReached, Transient, "memory is full"),
            ("NOREPLICAS Not enough good replicas", ErrorKind::ConnectionLost, Transient, "min-replicas-to-write"),
            ("MISCONF Errors writing to the AOF file", ErrorKind::ConnectionLost, Transient, "AOF"),
            ("MOVED 3999 10.0.0.7:6381", ErrorKind::ConnectionLost, Transient, "10.0.0.7:6381"),
            ("TRYAGAIN Multiple keys request", ErrorKind::ConnectionLost, Transient, "on the way"),
            ("NOPROTO unsupported protocol version", ErrorKind::Unsupported, Permanent, "RESP3"),
            ("ERR max number of clients reached", ErrorKind::ConnectionLost, Transient, "maxclients"),
            ("ERR unknown command 'EVALSHA'", ErrorKind::Unsupported, Permanent, "EVALSHA"),
            ("ERR syntax error", ErrorKind::Backend, Permanent, "join: ERR syntax error"),
        ] {
            let error = refused(text, "join").into_core(Operation::Join, true);
            let told = error.to_string();
            assert_eq!((error.kind(), error.advice()), (kind, advice), "{text}");
            assert!(told.contains(words) && !told.contains('\n'), "{text}: {told}");
        }
    }

    #[test]
    fn a_refusal_inside_a_script_is_that_of_its_command_on_every_version() {
        let since_7 = "OOM command not allowed when used memory > 'maxmemory'. script: 3f, on @user_script:1.";
        let before_7 = "ERR Error running script (call to f_3f): @user_script:1: @user_script: 1: -OOM command not \
                        allowed when used memory > 'maxmemory'.";
        assert_eq!(refused(since_7, "join").kind, FailureKind::Full);
        assert_eq!(refused(before_7, "join").kind, FailureKind::Full);
        let of_user = "ERR The user executing the script can't access at least one of the keys";
        assert_eq!(refused(of_user, "join").kind, FailureKind::Refused);
        let broken = "ERR user_script:1: Script attempted to index a nil value script: 3f, on @user_script:1.";
        assert_eq!(refused(broken, "join").effect, Effect::Unknown, "what it did before stands");
        let moving = "ERR Script attempted to access a non local key in a cluster node script: 3f, on @user_script:1.";
        let moving = refused(moving, "join");
        assert_eq!((moving.kind, moving.effect), (FailureKind::Unavailable, Effect::Unknown));
    }

    #[test]
    fn newer_servers_name_the_command_inside_a_script_themselves() {
        let text = "ERR ACL failure in script: User bob has no permissions to run the 'time' command script: 3f, on \
                    @user_script:47.";
        let failure = refused(text, "open");
        assert_eq!(failure.kind, FailureKind::Refused, "{failure}");
        assert!(failure.to_string().contains("'time'"), "{failure}");
    }

    #[test]
    fn a_right_that_is_missing_inside_a_script_is_told_by_its_command() {
        let source = "local now = 1\nreturn redis.call('ZADD', KEYS[1], now, ARGV[1])";
        for text in [
            "ERR The user executing the script can't run this command or subcommand script: 3f, on @user_script:2.",
            "ERR Error running script (call to f_3f): @user_script:2: @user_script: 2: -NOPERM The user executing the \
             script can't run this command or subcommand",
        ] {
            let value = parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("an answer");
            let failure = answer(explained(value, source, "{b}"), "join").expect_err("it is a refusal");
            assert_eq!(failure.kind, FailureKind::Refused, "{text}");
            assert!(failure.to_string().contains("'zadd'"), "{failure}");
        }
        let elsewhere = "ERR The user executing the script can't run this command script: 3f, on @user_script:9.";
        let value = parse_redis_value(format!("-{elsewhere}\r\n").as_bytes()).expect("an answer");
        assert_eq!(explained(value.clone(), source, "{b}"), value);
    }

    #[test]
    fn a_right_to_keys_that_is_missing_is_told_with_the_keys() {
        for text in [
            "NOPERM No permissions to access a key",
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            "ERR The user executing the script can't access at least one of the keys mentioned in the command \
             arguments script: 3f, on @user_script:1.",
        ] {
            let value = parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("an answer");
            let failure = answer(explained(value, "return 1", "{locks}"), "open").expect_err("it is a refusal");
            assert_eq!(failure.kind, FailureKind::Refused, "{text}");
            assert!(failure.to_string().ends_with("ACL SETUSER <user> ~{locks}*"), "{failure}");
        }
    }

    #[test]
    fn any_refusal_of_hello_says_that_resp3_is_needed() {
        for text in ["ERR unknown command 'HELLO', with args beginning with: '3'", "ERR invalid command"] {
            let failure = refused(text, HELLO);
            assert_eq!(failure.kind, FailureKind::Unsupported, "{text}");
            assert!(failure.to_string().contains("RESP3"), "{failure}");
        }
    }

    #[test]
    fn a_server_of_a_cluster_names_the_one_that_has_the_keys() {
        for (text, node) in [
            ("MOVED 1 h2.example:6380", Some(("h2.example", 6380))),
            ("MOVED 1 ::1:6380", Some(("::1", 6380))),
            ("MOVED 1 [::1]:6380", Some(("::1", 6380))),
            ("MOVED 1 :6380", Some(("", 6380))),
            ("MOVED 1 ?:6380", None),
            ("MOVED 1 h2:0", None),
            ("MOVED", None),
        ] {
            let failure = refused(text, "join");
            let found = failure.moved_to().map(|server| (server.name.as_str(), server.port));
            assert_eq!((failure.kind, found), (FailureKind::Moved, node), "{text}");
        }
    }
}
