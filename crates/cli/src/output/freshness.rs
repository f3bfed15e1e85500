//! From when on what a monitor knows is too old.

use std::time::Duration;

use lockkeeper_monitor::Way;

/// Tells after which age what is known is too old to be relied on: a few looks, or a few seconds.
pub(crate) fn age_max(way: Way) -> Duration {
    const AGE_MAX: Duration = Duration::from_secs(5);
    match way {
        Way::Looks(period) => AGE_MAX.max(period * 3),
        _ => AGE_MAX,
    }
}
