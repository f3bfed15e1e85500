//! The settings of a simulated machine: which of them count, and the messages for those that cannot be used.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lockkeeper::retry::RetryPolicy;
use lockkeeper_console::config::Listen;

use super::places::ConfigPlaces;
use super::{ServerSettings, ServiceSettings};
use crate::config::Global;
use crate::exit::CommandFailure;

/// A simulated machine: variables, and files under a temporary directory.
struct Machine {
    directory: tempfile::TempDir,
    variables: BTreeMap<&'static str, OsString>,
    global: Global,
}

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let variables = BTreeMap::from([("HOME", directory.path().join("person").into_os_string())]);
        Self { directory, variables, global: Global::default() }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.variables.insert(name, value.into());
    }

    fn settle(&self) -> Result<ServiceSettings, String> {
        self.with_places(|places| ServiceSettings::settle(&self.global, places))
    }

    fn server(&self) -> Result<ServerSettings, String> {
        self.with_places(|places| ServerSettings::settle(&self.global, places))
    }

    fn with_places<T>(&self, settle: impl FnOnce(&ConfigPlaces<'_>) -> Result<T, CommandFailure>) -> Result<T, String> {
        let system_config = self.directory.path().join("etc/config.toml");
        let places =
            ConfigPlaces { variable: &|name| self.variables.get(name).cloned(), system_config: &system_config };
        settle(&places).map_err(|failure| failure.message)
    }

    fn url(&self) -> String {
        self.settle().unwrap().url.to_string()
    }

    fn refusal(&self) -> String {
        self.settle().unwrap_err()
    }
}

#[test]
fn options_go_before_the_environment_and_that_before_files() {
    let mut machine = Machine::new();
    machine.file("etc/config.toml", "url = 'file:/system'");
    assert_eq!(machine.url(), "file:/system");
    machine.file("person/.config/lockkeeper/config.toml", "url = 'file:/person'");
    assert_eq!(machine.url(), "file:/person");
    machine.file("xdg/lockkeeper/config.toml", "url = 'file:/xdg'");
    let config_home = machine.directory.path().join("xdg");
    machine.set("XDG_CONFIG_HOME", config_home);
    assert_eq!(machine.url(), "file:/xdg");
    let path = machine.file("by-variable.toml", "url = 'file:/variable'");
    machine.set("LOCKKEEPER_CONFIG", path);
    assert_eq!(machine.url(), "file:/variable");
    machine.global.config = Some(machine.file("by-option.toml", "url = 'file:/option'"));
    assert_eq!(machine.url(), "file:/option");
    machine.set("LOCKKEEPER_URL", "file:/url");
    assert_eq!(machine.url(), "file:/url");
    machine.global.connect = Some("file:here".to_owned());
    assert_eq!(machine.url(), "file:here");
}

#[test]
fn relative_directories_of_the_environment_are_not_looked_at() {
    let mut machine = Machine::new();
    machine.file("etc/config.toml", "url = 'file:/system'");
    machine.set("XDG_CONFIG_HOME", "xdg");
    machine.set("HOME", "");
    assert_eq!(machine.url(), "file:/system");
}

#[test]
fn the_settings_of_a_file_take_effect_wherever_the_service_is_named() {
    let mut machine = Machine::new();
    machine.file(
        "etc/config.toml",
        "url = 'file:/x'\nacquire_timeout = '2.5s'\n[retry]\nbase_sleep = '2s'\nmax_sleep = '1m'\nmax_retries = 7",
    );
    machine.global.connect = Some("memory:".to_owned());
    let settings = machine.settle().unwrap();
    assert_eq!(settings.acquire_timeout, Some(Duration::from_millis(2_500)));
    let expected = RetryPolicy::exponential_backoff(Duration::from_secs(2), Duration::from_secs(60), 7);
    assert_eq!(settings.retry, Some(expected));
    assert!(settings.keeper().is_ok());
}

#[test]
fn a_fault_in_a_file_is_reported_with_its_name_and_the_cure() {
    for (text, words) in [
        ("url = ''", vec!["names no service", "url = "]),
        ("user = 'ann'", vec!["`user`", "names no service", "url = "]),
        ("password_file = '/x'\n[server]", vec!["`password_file`", "names no service"]),
        ("url = 'file:/x'\nsesion_timeout = 3", vec!["line 2", "`sesion_timeout`", "`acquire_timeout`"]),
        ("url = 'file:/x'\n[retry]\nmax_tries = 3", vec!["line 3", "`max_tries`", "`max_retries`"]),
        ("url = 'file:/x'\nacquire_timeout = 'soon'", vec!["line 2", "`soon` is not a duration"]),
        ("url = 'file:/x'\nacquire_timeout = 5000", vec!["line 2", "write 5000ms or 5000s"]),
        ("url = 'zk://h1'\nbase = '/x'\nbase_path = '/y'", vec!["duplicate field `base`"]),
        ("url = 'file:/x'\n[retry]\nbase_sleep = '0s'", vec!["retry.base_sleep"]),
        ("url = 'file:/x'\n[retry]\nbase_sleep = '3s'\nmax_sleep = '2s'", vec!["retry.max_sleep"]),
        ("url = 'file:/x'\n[retry]\npolicy = 'often'", vec!["line 3", "`often`", "`until-elapsed`"]),
        ("url = 'file:/x'\n[retry]\npolicy = 'n-times'", vec!["needs retry.max_retries"]),
        ("url = 'file:/x'\n[retry]\npolicy = 'forever'\nmax_retries = 3", vec!["\"forever\" has no retry.max_retries"]),
        ("url = 'file:/x'\n[retry]\nmax_elapsed = '3s'", vec!["max_elapsed", "\"until-elapsed\""]),
        ("url = 'file:locks'", vec!["`file:locks`", "from the root"]),
        ("[server]\nlisten = 'here'", vec!["line 2"]),
        ("[server]\nport = 2181", vec!["line 2", "`port`", "`listen`"]),
        ("[server]\ntick = '0.1ms'", vec!["server.tick"]),
        ("[server]\ndata_dir = 'data'", vec!["server.data_dir", "`data`", "from the root"]),
        ("[monitor]\nenable = true", vec!["line 2", "`enable`", "`enabled`"]),
        ("[monitor]\ninterval = '0s'", vec!["monitor.interval is zero"]),
        ("[monitor]\ncontention_threshold = 0", vec!["line 2"]),
        ("[monitor]\nwebhook_ca = '/x'", vec!["monitor.webhook_ca", "without monitor.webhook"]),
        ("[monitor]\nwebhook_format = 'plain'", vec!["monitor.webhook_format", "without monitor.webhook"]),
        ("[monitor]\nwebhook = 'http://h'\nwebhook_format = 'xml'", vec!["line 3", "`xml`"]),
        ("[monitor]\ncommand = []", vec!["monitor.command", "no program"]),
        ("[[monitor.locks]]\nnames = ''", vec!["monitor.locks.names", "empty"]),
        ("[[monitor.locks]]\nlong_hold_threshold = '1h'", vec!["line 1", "`names`"]),
    ] {
        let mut machine = Machine::new();
        let path = machine.file("named.toml", text);
        machine.global.config = Some(path.clone());
        let refusal = machine.refusal();
        assert!(refusal.contains(path.to_str().unwrap()), "{text}: {refusal}");
        assert!(!refusal.trim_end().contains('\n'), "{text}: {refusal}");
        for word in words {
            assert!(refusal.contains(word), "{text}: {refusal}");
        }
    }
}

#[test]
fn a_file_without_a_service_says_how_one_is_used_that_is_named_elsewhere() {
    let mut machine = Machine::new();
    for empty in ["", "# nothing yet", "[server]\nlisten = '127.0.0.1:1'"] {
        machine.global.config = Some(machine.file("empty.toml", empty));
        machine.global.connect = Some("file:/here".to_owned());
        assert_eq!(machine.url(), "file:/here", "{empty}");
        machine.global.connect = None;
        assert_eq!(machine.url(), "file:", "{empty}");
        assert!(!machine.settle().unwrap().is_named());
    }
    machine.global.config = None;
    machine.file("person/.config/lockkeeper/config.toml", "base = '/mine'\nacquire_timeout = '7s'");
    machine.file("etc/config.toml", "url = 'zk://h1'\nbase = '/ours'\nsession_timeout = '9s'\nacquire_timeout = '5s'");
    let settings = machine.settle().unwrap();
    assert_eq!(settings.url.to_string(), "zk://h1?base=/mine&session_timeout=9s");
    assert_eq!(settings.acquire_timeout, Some(Duration::from_secs(7)));
    machine.file("etc/config.toml", "");
    let refusal = machine.settle().unwrap().keeper().unwrap_err().message;
    let path = machine.directory.path().join("person/.config/lockkeeper/config.toml");
    let start = format!("the default directory with the settings of {}: ", path.display());
    assert!(refusal.starts_with(&start) && refusal.contains("`base`"), "{refusal}");
}

#[test]
fn a_file_that_is_named_must_be_there_and_readable() {
    let mut machine = Machine::new();
    machine.global.config = Some("/nowhere/x.toml".into());
    assert!(machine.refusal().contains("/nowhere/x.toml"));
    machine.global.config = None;
    machine.set("LOCKKEEPER_CONFIG", "/");
    assert!(machine.refusal().contains("LOCKKEEPER_CONFIG"));
    let path = machine.file("long.toml", &"#".repeat(65_537));
    machine.set("LOCKKEEPER_CONFIG", path);
    assert!(machine.refusal().contains("65536 bytes"));
    machine.set("LOCKKEEPER_CONFIG", "");
    assert!(machine.refusal().contains("LOCKKEEPER_CONFIG is empty"));
}

#[test]
fn a_file_that_cannot_be_read_is_not_passed_over() {
    let machine = Machine::new();
    machine.file("etc/config.toml", "url = 'file:/system'");
    let user_config = machine.directory.path().join("person/.config/lockkeeper/config.toml");
    std::fs::create_dir_all(&user_config).unwrap();
    assert!(machine.refusal().contains(user_config.to_str().unwrap()));
}

#[test]
fn an_empty_url_is_refused_and_no_password_is_quoted() {
    let mut machine = Machine::new();
    machine.set("LOCKKEEPER_URL", "");
    assert!(machine.refusal().contains("LOCKKEEPER_URL is empty"));
    machine.set("LOCKKEEPER_URL", "file:locks");
    assert!(machine.refusal().contains("from the root"));
    machine.set("LOCKKEEPER_URL", "postgres://ann:secret@db/app?nonsense=1");
    let failure = machine.settle().unwrap().keeper().unwrap_err().message;
    assert!(failure.starts_with("LOCKKEEPER_URL: ") && !failure.contains("secret"), "{failure}");
    machine.global.connect = Some("postgres://ann:secret@db/app".to_owned());
    let refusal = machine.refusal();
    assert!(refusal.contains("LOCKKEEPER_URL") && !refusal.contains("secret"), "{refusal}");
    machine.global.connect = None;
    let path = machine.file("x.toml", "url = 'postgres://ann:secret@db/app\n");
    machine.set("LOCKKEEPER_CONFIG", path);
    assert!(!machine.refusal().contains("secret"));
}

#[test]
fn credentials_come_from_the_url_the_environment_or_a_file_in_that_order() {
    let mut machine = Machine::new();
    let password = |machine: &Machine| machine.settle().unwrap().url.password().map(str::to_owned);
    let secret = machine.file("secret", "from/a@file\n");
    let text = format!("url = 'zk://h1'\nuser = 'ann'\npassword_file = '{}'", secret.display());
    machine.file("etc/config.toml", &text);
    assert_eq!((machine.url().as_str(), password(&machine).as_deref()), ("zk://ann:***@h1", Some("from/a@file")));
    machine.set("LOCKKEEPER_PASSWORD", "1234/Sc0tt@h");
    assert_eq!((machine.url().as_str(), password(&machine).as_deref()), ("zk://ann:***@h1", Some("1234/Sc0tt@h")));
    machine.set("LOCKKEEPER_USER", "bob");
    assert_eq!(machine.url(), "zk://bob:***@h1");
    machine.set("LOCKKEEPER_URL", "zk://eve@h2");
    assert_eq!(machine.url(), "zk://eve@h2", "what is for another user is not handed to this one");
    machine.set("LOCKKEEPER_URL", "zk://eve:own@h2");
    assert_eq!(password(&machine).as_deref(), Some("own"));
    machine.set("LOCKKEEPER_URL", "file:/srv/locks");
    assert_eq!(machine.url(), "file:/srv/locks");
}

#[test]
fn the_credentials_of_a_file_are_for_its_own_url_alone() {
    let mut machine = Machine::new();
    let secret = machine.file("secret", "for production\n");
    let text = format!("url = 'zk://prod'\nuser = 'ann'\npassword_file = '{}'", secret.display());
    machine.file("etc/config.toml", &text);
    assert_eq!(machine.url(), "zk://ann:***@prod");
    machine.set("LOCKKEEPER_URL", "zk://test");
    assert_eq!(machine.url(), "zk://test");
    machine.global.connect = Some("zk://ann@test".to_owned());
    assert_eq!(machine.url(), "zk://ann@test");
    machine.set("LOCKKEEPER_PASSWORD", "for the test");
    assert_eq!(machine.url(), "zk://ann:***@test", "those of the environment are for the URL in use");
}

#[test]
fn a_password_file_is_read_only_where_it_is_needed() {
    let mut machine = Machine::new();
    let text = |url: &str| format!("url = '{url}'\nuser = 'ann'\npassword_file = '/nowhere/secret'");
    machine.file("etc/config.toml", &text("zk://prod"));
    assert!(machine.refusal().contains("/nowhere/secret"));
    machine.set("LOCKKEEPER_PASSWORD", "known");
    assert_eq!(machine.url(), "zk://ann:***@prod");
    machine.variables.remove("LOCKKEEPER_PASSWORD");
    machine.global.connect = Some("zk://test".to_owned());
    assert_eq!(machine.url(), "zk://test");
    machine.global.connect = None;
    for url in ["file:/srv/locks", "zk://bob@prod", "zk://ann:***@prod"] {
        machine.file("etc/config.toml", &text(&url.replace("***", "own")));
        assert_eq!(machine.url(), url);
    }
    machine.set("LOCKKEEPER_USER", "ann");
    machine.set("LOCKKEEPER_PASSWORD_FILE", "/nowhere/else");
    for url in ["file:/srv/locks", "zk://bob@prod", "zk://ann:***@prod"] {
        machine.set("LOCKKEEPER_URL", url.replace("***", "own"));
        assert_eq!(machine.url(), url);
    }
    machine.set("LOCKKEEPER_URL", "zk://prod");
    assert!(machine.refusal().contains("/nowhere/else"));
}

#[test]
fn credentials_that_cannot_be_read_are_named_by_their_place_and_never_quoted() {
    let mut machine = Machine::new();
    machine.set("LOCKKEEPER_URL", "zk://ann:1234/Sc0tt@h");
    let refusal = machine.refusal();
    assert!(refusal.starts_with("LOCKKEEPER_URL: ") && refusal.contains("%40"), "{refusal}");
    assert!(!refusal.contains("1234") && !refusal.contains("Sc0tt"), "{refusal}");
    machine.set("LOCKKEEPER_URL", "zk://ann@h1");
    let empty = machine.file("empty", "\n");
    for (variable, value, word) in [
        ("LOCKKEEPER_PASSWORD_FILE", "/nowhere/secret".into(), "/nowhere/secret"),
        ("LOCKKEEPER_PASSWORD_FILE", empty.into_os_string(), "no password"),
        ("LOCKKEEPER_PASSWORD", OsString::new(), "LOCKKEEPER_PASSWORD is empty"),
    ] {
        machine.set(variable, value);
        let refusal = machine.refusal();
        assert!(refusal.contains(variable) && refusal.contains(word), "{refusal}");
        machine.variables.remove(variable);
    }
    machine.set("LOCKKEEPER_PASSWORD", "a");
    machine.set("LOCKKEEPER_PASSWORD_FILE", "/b");
    assert!(machine.refusal().contains("both set"));
}

#[test]
fn a_file_sets_the_service_and_the_keys_of_the_url_go_first() {
    let mut machine = Machine::new();
    machine.file(
        "etc/config.toml",
        "url = 'zk://h1?session_timeout=6s'\nsession_timeout = '30s'\nconnection_timeout = '3s'\n\
         operation_timeout = '1500ms'\nbase_path = '/fleet'",
    );
    let own = "session_timeout=6s";
    let others = "connect_timeout=3s&operation_timeout=1500ms&base=/fleet";
    assert_eq!(machine.url(), format!("zk://h1?{own}&{others}"));
    assert!(machine.settle().unwrap().keeper().is_ok());
    machine.set("LOCKKEEPER_URL", "zk://h2?base=/mine&connect_timeout=1s");
    let expected = "zk://h2?base=/mine&connect_timeout=1s&session_timeout=30s&operation_timeout=1500ms";
    assert_eq!(machine.url(), expected);
    assert!(machine.settle().unwrap().keeper().is_ok());
}

#[test]
fn a_setting_that_the_chosen_service_does_not_have_is_refused_by_name() {
    let mut machine = Machine::new();
    let path = machine.file("etc/config.toml", "url = 'file:/x'\nsession_timeout = '20s'");
    let path = path.to_str().unwrap();
    let refusal = machine.settle().unwrap().keeper().unwrap_err().message;
    assert!(refusal.starts_with(path) && refusal.contains("`session_timeout`"), "{refusal}");
    machine.global.connect = Some("memory:".to_owned());
    let refusal = machine.settle().unwrap().keeper().unwrap_err().message;
    let start = format!("--connect with the settings of {path}: ");
    assert!(refusal.starts_with(&start) && refusal.contains("`session_timeout`"), "{refusal}");
    machine.global.connect = Some("zk://h1?session_timeout=20".to_owned());
    let refusal = machine.settle().unwrap().keeper().unwrap_err().message;
    assert!(refusal.contains("write 20ms or 20s"), "{refusal}");
}

#[test]
fn every_retry_policy_is_made_of_its_keys() {
    let seconds = Duration::from_secs;
    for (text, expected) in [
        ("", RetryPolicy::forever(seconds(1), seconds(10))),
        ("max_retries = 3", RetryPolicy::exponential_backoff(seconds(1), seconds(10), 3)),
        ("policy = 'exponential'\nmax_retries = 3", RetryPolicy::exponential_backoff(seconds(1), seconds(10), 3)),
        ("policy = 'forever'\nbase_sleep = '20s'", RetryPolicy::forever(seconds(20), seconds(20))),
        ("policy = 'n-times'\nmax_retries = 5\nbase_sleep = '2s'", RetryPolicy::n_times(5, seconds(2))),
        ("policy = 'until-elapsed'\nmax_elapsed = '1m30s'", RetryPolicy::until_elapsed(seconds(90), seconds(1))),
    ] {
        let machine = Machine::new();
        machine.file("etc/config.toml", &format!("url = 'memory:'\n[retry]\n{text}"));
        assert_eq!(machine.settle().unwrap().retry, Some(expected), "{text}");
    }
}

#[test]
fn a_file_with_only_a_server_or_a_monitor_names_no_service_and_hides_none() {
    for text in ["[server]\nlisten = '127.0.0.1:0'", "[monitor]\nenabled = false"] {
        let mut machine = Machine::new();
        machine.file("person/.config/lockkeeper/config.toml", text);
        assert_eq!(machine.url(), "file:", "{text}");
        machine.file("etc/config.toml", "url = 'file:/system'");
        assert_eq!(machine.url(), "file:/system", "the locks of the rest of the machine are elsewhere: {text}");
        machine.global.config = Some(machine.file("named.toml", text));
        assert_eq!(machine.url(), "file:", "a file that is named is the only one: {text}");
    }
}

#[test]
fn the_server_of_a_file_is_found_beside_the_locks_of_another() {
    let machine = Machine::new();
    assert_eq!(machine.server().unwrap(), ServerSettings::default());
    machine.file("person/.config/lockkeeper/config.toml", "url = 'file:/x'");
    machine.file("etc/config.toml", "[server]\nlisten = '[::1]:0'\ndata_dir = '/srv/zookeeper'\ntick = '500ms'");
    let expected = ServerSettings {
        listen: vec![Listen::parse("[::1]:0").unwrap()],
        data_dir: Some("/srv/zookeeper".into()),
        tick: Some(Duration::from_millis(500)),
        ..ServerSettings::default()
    };
    assert_eq!(machine.server().unwrap(), expected);
    machine.file("person/.config/lockkeeper/config.toml", "[server]\ntick = 500");
    assert!(machine.server().unwrap_err().contains("write 500ms or 500s"));
}
