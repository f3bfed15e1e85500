//! Tests of tables of settings: what is taken from a URL, what is refused, and how it is shown.

use super::*;

const TOYS: Settings = Settings {
    package: "lockkeeper-toy",
    schemes: &["toy", "toy+tls"],
    rows: &[
        Setting::session_timeout(Duration::from_secs(2)..=Duration::from_secs(300), Duration::from_secs(1)),
        Setting::CONNECT_TIMEOUT,
        Setting::OPERATION_TIMEOUT,
        Setting::new("tick", Kind::Time, Unset::Means("unknown")).text("the server's tick"),
        Setting::new("copies", Kind::Number(0..=100), Unset::Is("3")).text("how many"),
        Setting::new("wake", Kind::Word(&["auto", "look", "never"]), Unset::Is("auto")),
        Setting::new("clock", Kind::Word(&["trust"]), Unset::Means("no trust")).text("which"),
        Setting::new("base", Kind::Text("a path from `/` on", |text| text.starts_with('/')), Unset::Is("/toys")),
    ],
    elsewhere: &[Elsewhere::new("rope", "`base` here").same(&["/toys"])],
    tls: &[Setting::new("ca", Kind::File, Unset::Means("the system's")).text("whom to trust")],
};

fn read(url: &str) -> Result<Given> {
    TOYS.read(&url.parse()?)
}

fn told(result: Result<Given>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn every_kind_of_value_is_read_and_what_is_left_out_is_the_default() {
    for (query, times, copies, texts) in [
        ("", [20_000, 10_000, 20_000, 0], 3, ["auto", "", "/toys"]),
        (
            "?session_timeout=2s&connect_timeout=300ms&operation_timeout=1m30s&tick=.5s&copies=100&wake=look&clock=trust\
             &base=/a%26b",
            [2_000, 300, 90_000, 500],
            100,
            ["look", "trust", "/a&b"],
        ),
    ] {
        let given = read(&format!("toy://h{query}")).unwrap();
        let [session, connect, tick] = ["session_timeout", "connect_timeout", "tick"].map(|key| given.time(key));
        assert_eq!([session, connect, given.operation_timeout(), tick], times.map(Duration::from_millis));
        assert_eq!((given.number("copies"), ["wake", "clock", "base"].map(|key| given.text(key))), (copies, texts));
    }
}

#[test]
fn a_setting_of_another_client_is_taken_where_it_says_what_is_so_anyway() {
    assert_eq!(read("toy://h?rope=/toys&base=/a").unwrap().text("base"), "/a");
}

#[test]
fn what_a_row_does_not_allow_is_refused_with_what_it_allows() {
    for (query, words) in [
        ("session_timeout=1s", "`session_timeout` is a time from `2s` to `5m`, a multiple of `1s`, and not `1s`"),
        ("session_timeout=301s", "and not `301s`"),
        ("session_timeout=2500ms", "and not `2500ms`"),
        ("session_timeout=30000", "`session_timeout`: `30000` has no unit; write 30000ms or 30000s"),
        ("operation_timeout=0s", "`operation_timeout` is zero"),
        ("copies=101", "`copies` is a number from `0` to `100`, and not `101`"),
        ("copies=-1", "and not `-1`"),
        ("copies=99999999999", "and not `99999999999`"),
        ("wake=", "`wake` is `auto`, `look` or `never`, and not ``"),
        ("clock=guess", "`clock` is `trust` or left out, and not `guess`"),
        ("base=a%0Ab", r"`base` is a path from `/` on, and not `a\nb`"),
        ("bse=/a", "`toy:` has no setting `bse`; it has `session_timeout`, `connect_timeout`, `operation_timeout`"),
        ("ca=x", "`ca` is for TLS, which `toy+tls:` asks for"),
        ("rope=/x", "`rope` is `base` here"),
    ] {
        let error = read(&format!("toy://h?{query}")).expect_err(query);
        assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{query}");
        assert!(error.to_string().contains(words), "{query}: {error}");
    }
    let error = told(read("zk://h"));
    assert!(error.contains("`zk:` is no URL of `lockkeeper-toy`, which takes `toy:` or `toy+tls:`"), "{error}");
}

#[test]
fn tls_has_its_own_settings_and_is_asked_for_by_a_scheme_or_by_sslmode() {
    let url = |text: &str| text.parse::<ServiceUrl>().unwrap();
    assert!(read("toy+tls://h?ca=x").is_ok());
    let error = told(read("toy+tls://h?cacert=x"));
    assert!(error.contains("no setting `cacert`; it has") && error.contains("`base`, `ca`"), "{error}");
    assert!(told(Given::of(TOYS.tls, &url("toy+tls://h?ca="))).contains("`ca` names no file"));

    let by_word = Settings { rows: &[Setting::SSLMODE], ..TOYS };
    for (text, is_secured) in [
        ("toy://h", false),
        ("toy://h?sslmode=disable", false),
        ("toy://h?sslmode=require", true),
        ("toy+tls://h", true),
    ] {
        assert_eq!(by_word.is_secured(&url(text)), is_secured, "{text}");
    }
    assert!(by_word.read(&url("toy://h?sslmode=verify-full&ca=x")).is_ok());
    assert!(told(read("toy://h?sslmode=verify-full")).contains("no setting `sslmode`"));
    assert!(told(read("toy+tls://%2Frun%2Ftoy")).contains("a Unix socket has no TLS"));

    let without = Settings { tls: &[], ..TOYS };
    let error = without.read(&url("toy+tls://h?ca=x")).unwrap_err();
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Unsupported, crate::Advice::Permanent));
    assert!(error.to_string().contains("feature `tls` of the crate `lockkeeper`, or of `lockkeeper-toy`"), "{error}");
    assert!(told(without.read(&url("toy://h?ca=x"))).contains("no setting `ca`"));
}

#[test]
fn what_is_in_force_is_what_is_given_or_the_default() {
    let shown = |url: &str| {
        let in_force = TOYS.in_force(&url.parse().unwrap()).into_iter();
        in_force.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let defaults = "session_timeout=20s connect_timeout=10s operation_timeout=(the session timeout) tick=(unknown) \
                    copies=3 wake=auto clock=(no trust) base=/toys";
    assert_eq!(shown("toy://h"), defaults);
    assert_eq!(shown("toy+tls://h?copies=4&ca=x"), defaults.replace("s=3", "s=4") + " ca=x");
}

#[test]
fn the_text_of_a_table_is_its_documentation() {
    let text = TOYS.to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[..2], ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]);
    for line in [
        "| `session_timeout` | a time from `2s` to `5m`, a multiple of `1s` | `20s` | how long the service keeps a \
         session without hearing from it |",
        "| `tick` | a time | unknown | the server's tick |",
        "| `copies` | a number from `0` to `100` | `3` | how many |",
        "| `clock` | `trust` or left out | no trust | which |",
        "| `ca` | a file | the system's | whom to trust |",
    ] {
        assert!(lines.contains(&line), "{text}");
    }
    let times = [86_400_000, 90_000, 1_500].map(|millis| shown(Duration::from_millis(millis)));
    assert_eq!(times, ["24h", "90s", "1500ms"]);
}
