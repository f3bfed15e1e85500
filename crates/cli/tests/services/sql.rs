//! The two databases, as the tests of both ask them.

use lockkeeper_faults::authority::Papers;
use lockkeeper_faults::{mariadb, postgres};

use crate::services::{Server, Service};

impl Server {
    /// Has the superuser ask for something that answers nothing.
    pub(crate) async fn ask(&self, sql: &str) {
        match self {
            Self::PostgreSql(server) => drop(server.ask(sql).await.expect(sql)),
            Self::MariaDb(server) => drop(server.ask(sql).await.expect(sql)),
            _ => unreachable!("no database"),
        }
    }

    /// The one value that a question of the superuser is answered by.
    pub(crate) async fn value(&self, sql: &str) -> String {
        match self {
            Self::PostgreSql(server) => server.value(sql).await.expect(sql),
            Self::MariaDb(server) => server.value(sql).await.expect(sql),
            _ => unreachable!("no database"),
        }
    }

    /// The URL of a user with this password.
    pub(crate) fn url_as(&self, user: &str, password: Option<&str>) -> String {
        match self {
            Self::PostgreSql(server) => server.url_as(user, password, "postgres"),
            Self::MariaDb(server) => server.url_as(user, password, ""),
            _ => unreachable!("no database"),
        }
    }

    /// Makes a user who may do nothing, and returns their URL.
    pub(crate) async fn create_app(&self) -> String {
        match self {
            Self::PostgreSql(server) => server.create_user("app", "s3cret").await,
            Self::MariaDb(server) => server.create_user("app", "s3cret").await,
            _ => unreachable!("no database"),
        }
        .expect("a user");
        self.url_as("app", Some("s3cret"))
    }

    /// Lets that user call the functions, which is the least right.
    pub(crate) async fn grant_least(&self) {
        self.ask(match self {
            Self::PostgreSql(_) => {
                "GRANT USAGE ON SCHEMA lockkeeper TO app; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lockkeeper TO app"
            }
            _ => "GRANT EXECUTE ON lockkeeper.* TO app@'%'",
        })
        .await;
    }
}

/// What is other than usual about a database.
pub(crate) enum With {
    /// It keeps what it has told.
    Durable,
    /// The superuser has a password.
    Password,
    Tls(Papers),
}

/// Starts a database; `None` where it cannot be started, and the test is skipped.
pub(crate) async fn start(service: Service, with: With) -> Option<Server> {
    if !service.can_start() {
        return None;
    }
    let (postgres, mariadb) = (postgres::Setup::new(), mariadb::Setup::new());
    let (postgres, mariadb) = match with {
        With::Durable => (postgres.durable(), mariadb.durable()),
        With::Password => (postgres.password("s3cret"), mariadb.password("s3cret")),
        With::Tls(papers) => (postgres.tls(papers.clone()), mariadb.tls(papers)),
    };
    Some(match service {
        Service::PostgreSql => Server::PostgreSql(postgres.start().await.expect("a server")),
        _ => Server::MariaDb(mariadb.start().await.expect("a server")),
    })
}
