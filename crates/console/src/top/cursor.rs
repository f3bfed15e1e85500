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
