//! Tests of URLs: which are taken, and what is said of the others.

use lockkeeper_core::ErrorKind;

use super::*;

fn config(url: &str) -> Result<Config> {
    Config::from_url(&url.parse()?)
}

fn server(name: &str, port: u16) -> Server {
    Server::new(name, port)
}

#[test]
fn a_url_without_settings_has_the_defaults() {
    for (url, dialect, port) in [
        ("postgres://h1", Dialect::Postgres, POSTGRES_PORT_DEFAULT),
        ("mysql://h1", Dialect::Mysql, MYSQL_PORT_DEFAULT),
        ("mariadb://h1/", Dialect::Mysql, MYSQL_PORT_DEFAULT),
    ] {
        let config = config(url).unwrap();
        assert_eq!((config.dialect, &config.servers[..]), (dialect, &[server("h1", port)][..]));
        assert_eq!((config.user, config.password, config.database), (None, None, None));
        assert_eq!(config.schema, SCHEMA_DEFAULT);
        assert!(config.sets_up && !config.only_looks && !config.is_only_node && !config.flushes_joins);
    }
}

#[test]
fn every_setting_is_read() {
    let url = "postgres://ann:s%3Acret@h1:1,[::1]:2/app?schema=locks_2&session_timeout=2500ms&setup=never&wake=look\
               &commit=sync";
    let config = config(url).unwrap();
    assert_eq!(config.servers, [server("h1", 1), server("::1", 2)]);
    assert_eq!((config.schema.as_str(), config.session_timeout), ("locks_2", Duration::from_millis(2_500)));
    assert_eq!((config.user.as_deref(), config.password.as_deref()), (Some("ann"), Some("s:cret")));
    assert_eq!(config.database.as_deref(), Some("app"));
    assert!(!config.sets_up && config.only_looks && config.flushes_joins);
    assert!(!format!("{config:?}").contains("cret"));
}

#[test]
fn what_other_clients_say_and_is_so_anyway_is_taken() {
    let config = config("postgresql://h1/app?target_session_attrs=read-write&sslmode=disable").unwrap();
    assert_eq!((config.dialect, config.database.as_deref()), (Dialect::Postgres, Some("app")));
    assert_eq!(self::config("mysql://h1/lockkeeper").unwrap().schema, "lockkeeper");
    assert_eq!(self::config("mysql://h1/locks?schema=locks").unwrap().schema, "locks");
}

#[test]
fn a_node_of_galera_is_taken_alone() {
    assert!(config("mariadb://h1?galera=one-node").unwrap().is_only_node);
    assert!(config("mysql://h1?setup=auto&wake=auto").unwrap().sets_up);
}

#[test]
#[cfg(feature = "tls")]
fn tls_is_asked_for_by_the_scheme_or_by_sslmode() {
    let authority = lockkeeper_faults::authority::Authority::new("db.example").unwrap();
    let ca = authority.file("ca").display().to_string();
    let is_secured = |url: &str| config(url).unwrap().tls.is_some();
    for url in [
        "postgres+tls://h1?",
        "postgres://h1?sslmode=verify-full&",
        "postgresql://h1?sslmode=require&",
        "mysql+tls://h1?",
        "mariadb+tls://h1?",
    ] {
        assert!(is_secured(&format!("{url}ca={ca}&server_name=db.example")), "{url}");
    }
    assert!(!is_secured("postgres://h1") && !is_secured("mysql://h1?sslmode=disable"));
    let missing = config("postgres+tls://h1?ca=/no/such/file").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::InvalidConfig);
}

#[test]
#[cfg(not(feature = "tls"))]
fn without_the_feature_tls_is_refused() {
    for url in ["postgres+tls://h1", "mysql://h1?sslmode=verify-full"] {
        assert_eq!(config(url).unwrap_err().kind(), ErrorKind::Unsupported, "{url}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (url, word) in [
        ("postgres:/db", "server"),
        ("mariadb:/db", "mariadb://h1"),
        ("postgres://h1/db/lockkeeper", "one database"),
        ("mariadb://h1/app", "`schema`"),
        ("postgres://h1?schema=", "`schema`"),
        ("postgres://h1?schema=Locks", "`schema`"),
        ("postgres://h1?schema=1a", "`schema`"),
        ("postgres://h1?schema=a%22b", "`schema`"),
        ("postgres://h1?schema=a1234567890123456789012345678901234567890123456789", "`schema`"),
        ("postgres://h1?galera=one-node", "`galera=one-node`"),
        ("mysql://h1,h2?galera=one-node", "`galera=one-node`"),
        ("postgres://h1?sslmode=prefer", "`sslmode` is `verify-full`, `require` or `disable`"),
        ("postgres://h1?host=/run/postgresql", "%2Frun%2Fpostgresql"),
        ("mysql://h1?socket=/run/mysqld.sock", "%2Frun%2Fmysqld"),
        ("mysql://h1?ssl-mode=REQUIRED", "`sslmode=verify-full`"),
        ("postgres://h1?sslrootcert=/ca.pem", "`ca`"),
        ("postgres://h1?target_session_attrs=any", "`read-write`"),
        ("mysql+tls://h1?sslmode=disable", "opposite"),
        ("redis+tls://h1", "`redis+tls:`"),
        #[cfg(feature = "tls")]
        ("postgres://h1?ca=x", "`ca` is for TLS"),
    ] {
        let error = config(url).expect_err(url);
        assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
        let told = format!("{error:#}");
        assert!(told.contains(word) && !told.contains('\n') && told.len() < 200, "{url}: {told}");
    }
}
