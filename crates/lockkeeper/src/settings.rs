//! The tables of settings of the services that are compiled in. What a setting is for, its service knows.

use lockkeeper_core::ServiceUrl;
use lockkeeper_core::url::Settings;

const TABLES: &[&Settings] = &[
    #[cfg(feature = "zookeeper")]
    lockkeeper_zookeeper::SETTINGS,
    #[cfg(feature = "etcd")]
    lockkeeper_etcd::SETTINGS,
    #[cfg(feature = "redis")]
    lockkeeper_redis::SETTINGS,
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    lockkeeper_sql::SETTINGS,
];

/// Returns the settings of the service that a URL names, each with what is so by it, for `lockkeeper doctor`.
pub fn settings_in_force(url: &ServiceUrl) -> Vec<(&'static str, String)> {
    let table = TABLES.iter().find(|table| table.schemes.contains(&url.scheme()));
    table.map(|table| table.in_force(url)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_has_settings_whose_defaults_may_be_given() {
        for (table, scheme) in TABLES.iter().flat_map(|table| table.schemes.iter().map(move |scheme| (table, scheme))) {
            let url: ServiceUrl = format!("{scheme}://h1").parse().unwrap();
            assert!(settings_in_force(&url).iter().any(|setting| *setting == ("session_timeout", "20s".to_owned())));
            if cfg!(feature = "tls") || !scheme.ends_with("+tls") {
                let given = table.read(&url).unwrap();
                let times = ["session_timeout", "connect_timeout"].map(|key| given.time(key).as_secs());
                assert_eq!((times, given.operation_timeout().as_secs()), ([20, 10], 20), "{scheme}");
            }
        }
        assert!(settings_in_force(&"memory:".parse().unwrap()).is_empty());
    }

    /// The head of a table.
    #[cfg(all(feature = "etcd", feature = "mysql", feature = "redis", feature = "tls", feature = "zookeeper"))]
    const HEAD: &str = "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";

    /// What every service has is on the page of settings, and the rest on the page of the service.
    #[cfg(all(feature = "etcd", feature = "mysql", feature = "redis", feature = "tls", feature = "zookeeper"))]
    #[test]
    fn the_guide_has_the_table_of_each_service() {
        let pages = [
            ("zookeeper.md", include_str!("../guide/zookeeper.md")),
            ("etcd.md", include_str!("../guide/etcd.md")),
            ("redis.md", include_str!("../guide/redis.md")),
            ("postgresql.md", include_str!("../guide/postgresql.md")),
        ];
        let texts: Vec<String> = TABLES.iter().map(ToString::to_string).collect();
        let rows = |text: &str, is_shared: bool| -> String {
            let of_all = |row: &&str| texts.iter().all(|text| text.lines().any(|line| line == *row)) == is_shared;
            text.lines().skip(2).filter(of_all).map(|row| format!("{row}\n")).collect()
        };
        let mut wanted: Vec<_> = pages.iter().zip(&texts).map(|(page, text)| (*page, rows(text, false))).collect();
        wanted.push((("settings.md", include_str!("../guide/settings.md")), rows(&texts[0], true)));
        for ((name, page), rows) in wanted {
            let table = format!("{HEAD}{rows}\n");
            assert!(page.contains(&table), "docs/guide/{name} lacks, word for word:\n\n{table}");
            assert_eq!(page.matches("| key |").count(), 1, "{name}: a table of no service, or one for two");
        }
        assert_eq!(texts.len(), pages.len(), "a service without a page");
    }
}
