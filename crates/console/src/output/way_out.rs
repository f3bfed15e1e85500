//! The way out of a deadlock for an operator: the order to give, and as a line for a shell.

use std::path::Path;
use std::time::Duration;

use lockkeeper::Mode;
use lockkeeper_monitor as monitor;
use serde::Serialize;

use super::text::{is_harmful, one_line};
use super::who::ContenderView;

/// The orders that an operator may give, to the service that was looked at.
#[derive(Debug)]
pub struct OrderCommands {
    /// The command, with the options that choose the service.
    command: Vec<String>,
    #[cfg(feature = "monitor")]
    are_on_page: bool,
}

/// The way out of one deadlock; in JSON, with the order as its words.
#[derive(Debug, Serialize)]
pub(super) struct WayOutRow {
    action: Action,
    lock: Option<String>,
    holder: Option<ContenderView>,
    token: Option<String>,
    command: Option<Vec<String>>,
    /// Whether others may hold the lock too, who are asked with the holder.
    #[serde(skip)]
    is_shared: bool,
    /// Whether the holder's client is known to receive requests.
    #[serde(skip)]
    is_heard: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Action {
    Revoke,
    Break,
    EndProcess,
}

impl OrderCommands {
    /// Orders that reach the same service, also in a shell without this command's options.
    pub fn new(connect: Option<&str>, config: Option<&Path>) -> Self {
        let mut command = vec!["lockkeeper".to_owned()];
        if let Some(url) = connect {
            command.extend(["--connect".to_owned(), url.to_owned()]);
        }
        if let Some(file) = config {
            command.extend(["--config".to_owned(), file.to_string_lossy().into_owned()]);
        }
        Self {
            command,
            #[cfg(feature = "monitor")]
            are_on_page: false,
        }
    }

    /// Orders that the page of a monitor carries out too.
    #[cfg(feature = "monitor")]
    #[must_use]
    pub fn on_page(self, are_on_page: bool) -> Self {
        Self { are_on_page, ..self }
    }

    #[cfg(feature = "monitor")]
    pub(crate) const fn are_on_page(&self) -> bool {
        self.are_on_page
    }

    /// Returns the words of an order that names no lock.
    pub fn order_without_lock(&self, words: &[&str]) -> Vec<String> {
        let words = words.iter().map(|&word| word.to_owned());
        self.command.iter().cloned().chain(words).collect()
    }

    /// Returns the words of an order: options, and the lock.
    pub fn order(&self, words: &[&str], lock: &str) -> Vec<String> {
        let mut order = self.order_without_lock(words);
        // A name that looks like an option.
        if lock.starts_with('-') {
            order.push("--".to_owned());
        }
        order.push(lock.to_owned());
        order
    }

    #[cfg(feature = "top")]
    pub(crate) fn shell_line(&self, words: &[&str], lock: &str) -> String {
        shell_line(&self.order(words, lock))
    }
}

impl WayOutRow {
    pub(super) fn new(way_out: &monitor::WayOut, orders: &OrderCommands, now_unix: Duration) -> Self {
        let (action, lock, holder, token) = match way_out {
            monitor::WayOut::Revoke { lock, holder } => (Action::Revoke, lock, holder, None),
            monitor::WayOut::Break { lock, holder, token } => (Action::Break, lock, holder, Some(token.to_string())),
            _ => {
                let (lock, holder, token, command) = (None, None, None, None);
                let action = Action::EndProcess;
                return Self { action, lock, holder, token, command, is_shared: false, is_heard: false };
            }
        };
        let lock = lock.as_str().to_owned();
        let command = match &token {
            Some(token) => orders.order(&["break", "--token", token], &lock),
            None => orders.order(&["revoke"], &lock),
        };
        Self {
            action,
            lock: Some(lock),
            token,
            command: Some(command),
            is_shared: matches!(holder.mode, Mode::Read | Mode::Permit),
            is_heard: holder.answers == lockkeeper::Answers::Yes,
            holder: Some(ContenderView::new(holder, now_unix).granted()),
        }
    }

    /// Says what to do, and the order as a separate line, each of these one line.
    pub(super) fn lines(&self) -> Vec<String> {
        let holder = self.holder.as_ref().map(ContenderView::at_length).unwrap_or_default();
        let lock = self.lock.as_deref().unwrap_or_default();
        let what = match self.action {
            Action::Revoke if self.is_shared => {
                format!("ask the holders of {lock} to give it up, of which {holder} is in the way")
            }
            Action::Revoke if self.is_heard => format!("ask {holder} to give {lock} up"),
            Action::Revoke => format!("ask {holder} to give {lock} up; its client may not listen"),
            Action::Break => {
                format!("take {lock} away from {holder}, whose client receives no requests and may go on for a moment")
            }
            Action::EndProcess => {
                "end the process of one of them: no holder's client receives requests or shows its token".to_owned()
            }
        };
        let order = self.command.as_ref().map(|words| shell_line(words));
        [Some(one_line(&what)), order].into_iter().flatten().collect()
    }
}

/// Writes words as a line that a shell reads as these words, and that a terminal shows as one line.
pub fn shell_line(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,@%+=".contains(letter);
    if word.contains(is_harmful) {
        // Its bytes in octal, which every shell can have printed.
        let escaped = |byte: u8| match byte {
            b' ' | b'.'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
            _ => format!("\\{byte:03o}"),
        };
        return format!("\"$(printf '{}')\"", word.bytes().map(escaped).collect::<String>());
    }
    // In some shells a word that begins with `=` or `~` is another one.
    if word.starts_with(|letter: char| letter.is_ascii_alphanumeric() || "-/_.".contains(letter))
        && word.chars().all(is_plain)
    {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_an_order_as_its_words_and_shows_it_as_one_line() {
        let names = [
            "nightly-backup",
            "a b",
            "it's; reboot",
            "$(reboot) `reboot` \"",
            "~root",
            "=ls",
            "#no comment",
            "<b>&amp;</b>",
            "鍵",
            "\u{202e}gnp\\'.exe",
            "100%s\u{9b}2J\u{1b}[2J\nx",
        ];
        for name in names {
            let line = shell_line(&["printf".to_owned(), "%s|".to_owned(), name.to_owned(), "end".to_owned()]);
            assert!(!line.contains(is_harmful), "{line:?}");
            let told = Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(told.stdout).unwrap(), format!("{name}|end|"), "{line}");
        }
        assert_eq!(shell_word("reports/daily"), "reports/daily");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn an_order_names_the_service_and_no_name_is_taken_for_an_option() {
        let orders = OrderCommands::new(Some("zk://h1:2181,h2?tick=2s"), Some("/etc/my locks.toml".as_ref()));
        let order = orders.order(&["break", "--token", "7"], "-x");
        assert_eq!(
            shell_line(&order),
            "lockkeeper --connect 'zk://h1:2181,h2?tick=2s' --config '/etc/my locks.toml' break --token 7 -- -x"
        );
    }
}
