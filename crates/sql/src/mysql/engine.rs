//! MariaDB and MySQL as a kind of database.

use crate::engines::Kind;
use crate::mysql::greeting::grants;
use crate::mysql::open::connect;
use crate::mysql::text;

pub(crate) const MYSQL: Kind =
    Kind { connect: |config, server, clock, intent| Box::pin(connect(config, server, clock, intent)), set_up_text };

fn set_up_text(schema: &str) -> String {
    let viewer = ["inspect", "inspect_all", "queues"]
        .map(|procedure| format!("GRANT EXECUTE ON PROCEDURE `{schema}`.`{procedure}_v1` TO 'viewer'@'%';"));
    format!(
        "{}-- The user `app` that locks needs no more than this, and one that only looks the last line alone:\n\
         -- {}\n\
         -- {}\n",
        text::set_up_text(schema),
        grants(schema, "app@%"),
        viewer.join(" ")
    )
}
