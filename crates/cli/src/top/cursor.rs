//! The chosen line of a list. It is chosen by what it is of, and it keeps its line on the screen where the others allow
//! that, so that no row moves under the cursor and no order meets a row that has just come there.

/// A chosen line, and which part of the list is on the screen.
#[derive(Clone, Debug)]
pub(super) struct Cursor<Key> {
    chosen: Option<(Key, usize)>,
    /// The first line on the screen.
    offset: usize,
}

impl<Key> Default for Cursor<Key> {
    fn default() -> Self {
        Self { chosen: None, offset: 0 }
    }
}

impl<Key: Clone + PartialEq> Cursor<Key> {
    pub(super) fn chosen(&self) -> Option<&Key> {
        self.chosen.as_ref().map(|(key, _)| key)
    }

    pub(super) const fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn clear(&mut self) {
        self.chosen = None;
    }

    /// Chooses what is at a place of the list.
    pub(super) fn choose(&mut self, keys: &[Key], at: usize) {
        self.chosen = keys.get(at).map(|key| (key.clone(), at));
    }

    /// Moves by so many lines; chooses the first line on the screen if none was chosen.
    pub(super) fn step(&mut self, keys: &[Key], lines: isize) {
        let at = match &self.chosen {
            Some((_, at)) => at.saturating_add_signed(lines).min(keys.len().saturating_sub(1)),
            None => self.offset,
        };
        self.choose(keys, at);
    }

    /// Puts the chosen row back to where it was in a list that was sorted anew, and the others around it. `gone` makes
    /// the row of what has left the list; with none, nothing is chosen any more.
    pub(super) fn keep<Row>(
        &mut self,
        rows: &mut Vec<Row>,
        key_of: impl Fn(&Row) -> Key,
        gone: impl FnOnce(&Key) -> Option<Row>,
    ) {
        let Some((key, at)) = self.chosen.take() else { return };
        let row = match rows.iter().position(|row| key_of(row) == key) {
            Some(found) => Some(rows.remove(found)),
            None => gone(&key),
        };
        if let Some(row) = row {
            let at = at.min(rows.len());
            rows.insert(at, row);
            self.chosen = Some((key, at));
        }
    }

    /// Finds the chosen row in a list whose order is not ours to change; the rows before it may have left.
    pub(super) fn find(&mut self, keys: &[Key]) {
        let Some((key, was)) = self.chosen.take() else { return };
        if let Some(at) = keys.iter().position(|other| *other == key) {
            // It stays on its line of the screen if there is enough before it.
            self.offset = self.offset.saturating_sub(was.saturating_sub(at));
            self.chosen = Some((key, at));
        }
    }

    /// Brings the chosen line onto a screen of so many lines.
    pub(super) fn scroll(&mut self, rows: usize, lines: usize) {
        let lines = lines.max(1);
        if let Some((_, at)) = self.chosen {
            self.offset = self.offset.clamp((at + 1).saturating_sub(lines), at);
        }
        self.offset = self.offset.min(rows.saturating_sub(lines));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(cursor: &mut Cursor<char>, sorted: &str) -> String {
        let mut rows: Vec<char> = sorted.chars().collect();
        cursor.keep(&mut rows, |row| *row, |gone| Some(*gone));
        rows.into_iter().collect()
    }

    #[test]
    fn the_chosen_row_keeps_its_line_while_the_others_are_sorted_anew() {
        let mut cursor = Cursor::default();
        assert_eq!(kept(&mut cursor, "abcd"), "abcd");
        cursor.choose(&['a', 'b', 'c', 'd'], 1);
        assert_eq!(kept(&mut cursor, "bdca"), "dbca");
        assert_eq!(kept(&mut cursor, "acdb"), "abcd");
        assert_eq!(kept(&mut cursor, "xacd"), "xbacd", "it is gone, and its line stays");
        assert_eq!(cursor.chosen(), Some(&'b'));
        assert_eq!(kept(&mut cursor, ""), "b");
    }

    #[test]
    fn what_is_gone_for_good_is_not_chosen_any_more() {
        let mut cursor = Cursor::default();
        cursor.choose(&['a', 'b'], 1);
        cursor.keep(&mut vec!['a'], |row| *row, |_| None);
        assert_eq!(cursor.chosen(), None);
        cursor.choose(&['a', 'b'], 1);
        cursor.find(&['a', 'c']);
        assert_eq!(cursor.chosen(), None, "and no other takes its place");
    }

    #[test]
    fn the_chosen_line_is_always_on_the_screen_and_the_list_does_not_end_above_its_foot() {
        let keys: Vec<usize> = (0..100).collect();
        let mut cursor = Cursor::default();
        let mut offset = |lines: isize| {
            cursor.step(&keys, lines);
            cursor.scroll(100, 10);
            cursor.offset()
        };
        assert_eq!([offset(1), offset(1), offset(8), offset(1), offset(-5), offset(-5)], [0, 0, 0, 1, 1, 0]);
        assert_eq!([offset(1_000), offset(-1), offset(-1_000)], [90, 90, 0]);
        cursor.choose(&keys, 99);
        cursor.scroll(100, 10);
        cursor.find(&keys[50..]);
        assert_eq!((cursor.chosen(), cursor.offset()), (Some(&99), 40), "it stays on its line of the screen");
        cursor.scroll(3, 10);
        assert_eq!(cursor.offset(), 0);
        cursor.choose(&keys, 9);
        cursor.scroll(100, 0);
        assert_eq!(cursor.offset(), 9, "a screen without room for a line");
    }
}
