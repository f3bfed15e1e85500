//! Tells the service manager what goes on.

use sd_notify::NotifyState;

use crate::output::say;

/// Tells systemd, or another manager that listens where `NOTIFY_SOCKET` says.
pub fn tell_manager(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        say(&format!("warning: the service manager at NOTIFY_SOCKET could not be told: {error}"));
    }
}
