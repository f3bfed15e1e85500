//! Names of locks, hosts and programs, each kept once as long as a record has it.

use std::collections::HashMap;
use std::sync::Arc;

/// What a name takes beside its letters: its counts, its place in the table and its number.
const NAME_BYTES: usize = 96;

/// The number of a name, as records have it.
pub(super) type NameNumber = u32;

#[derive(Clone, Debug, Default)]
pub(super) struct NameTable {
    numbers: HashMap<Arc<str>, NameNumber>,
    used: Vec<UsedName>,
    free: Vec<NameNumber>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct UsedName {
    text: Arc<str>,
    records: u32,
}

impl NameTable {
    /// Returns the number of a name that one more record has.
    pub(super) fn take(&mut self, text: &str) -> NameNumber {
        if let Some(&number) = self.numbers.get(text) {
            self.take_again(number);
            return number;
        }
        let text: Arc<str> = text.into();
        self.bytes += NAME_BYTES + text.len();
        let used = UsedName { text: Arc::clone(&text), records: 1 };
        let number = match self.free.pop() {
            Some(number) => {
                self.used[number as usize] = used;
                number
            }
            None => {
                self.used.push(used);
                NameNumber::try_from(self.used.len() - 1).expect("memory ends before numbers do")
            }
        };
        self.numbers.insert(text, number);
        number
    }

    fn take_again(&mut self, number: NameNumber) {
        self.used[number as usize].records += 1;
    }

    /// Takes back that a record has it; tells whether none has it any more.
    pub(super) fn give_back(&mut self, number: NameNumber) -> bool {
        let used = &mut self.used[number as usize];
        used.records -= 1;
        if used.records > 0 {
            return false;
        }
        let text = std::mem::replace(&mut used.text, Arc::from(""));
        self.bytes -= NAME_BYTES + text.len();
        self.numbers.remove(&text);
        self.free.push(number);
        true
    }

    pub(super) fn find(&self, text: &str) -> Option<NameNumber> {
        self.numbers.get(text).copied()
    }

    pub(super) fn text(&self, number: NameNumber) -> &str {
        &self.used[number as usize].text
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}
