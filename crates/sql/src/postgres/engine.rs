//! PostgreSQL as a kind of database.

use crate::engines::Kind;
use crate::postgres::greeting::grants;
use crate::postgres::open::connect;
use crate::postgres::text;

pub(crate) const POSTGRES: Kind =
    Kind { connect: |config, server, clock, intent| Box::pin(connect(config, server, clock, intent)), set_up_text };

fn set_up_text(schema: &str) -> String {
    format!(
        "BEGIN;\n{}COMMIT;\n\
         -- The role `app` that locks needs no more than this, and one that only looks the last line alone:\n\
         -- {}\n\
         -- GRANT USAGE ON SCHEMA {schema} TO \"viewer\"; GRANT EXECUTE ON FUNCTION {schema}.inspect_v1, \
         {schema}.inspect_all_v1, {schema}.queues_v1 TO \"viewer\";\n",
        text::set_up(schema),
        grants(schema, "app"),
    )
}
