//! From what a terminal sends to keys.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Input {
    Key(Key),
    /// A text was pasted. It is no row of keys: what it says must not be done.
    Pasted(String),
    Resized,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Key {
    Letter(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Interrupt,
    Suspend,
    /// Ctrl-U: empties the line that is typed.
    Clear,
    Redraw,
}

/// Returns what an event means, if it means anything.
pub(super) fn input(event: Event) -> Option<Input> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => self::key(key).map(Input::Key),
        Event::Paste(text) => Some(Input::Pasted(text)),
        Event::Resize(..) => Some(Input::Resized),
        _ => None,
    }
}

fn key(KeyEvent { code, modifiers, .. }: KeyEvent) -> Option<Key> {
    if modifiers.contains(KeyModifiers::CONTROL) {
        return match code {
            KeyCode::Char('c') => Some(Key::Interrupt),
            KeyCode::Char('z') => Some(Key::Suspend),
            KeyCode::Char('u') => Some(Key::Clear),
            KeyCode::Char('l') => Some(Key::Redraw),
            // What some terminals send for backspace.
            KeyCode::Char('h') => Some(Key::Backspace),
            _ => None,
        };
    }
    if modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    Some(match code {
        KeyCode::Char(letter) => Key::Letter(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_alt_and_releases_mean_nothing_and_a_pasted_text_is_no_row_of_keys() {
        let pressed = |code, modifiers| input(Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(pressed(KeyCode::Char('b'), KeyModifiers::NONE), Some(Input::Key(Key::Letter('b'))));
        assert_eq!(pressed(KeyCode::Char('b'), KeyModifiers::ALT), None);
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Input::Key(Key::Interrupt)));
        let mut released = KeyEvent::new(KeyCode::Char('b'), KeyModifiers::NONE);
        released.kind = KeyEventKind::Release;
        assert_eq!(input(Event::Key(released)), None);
        assert_eq!(input(Event::Paste("ry\n".to_owned())), Some(Input::Pasted("ry\n".to_owned())));
    }
}
