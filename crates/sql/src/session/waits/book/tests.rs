//! When waits are looked at, and which.

use super::*;

fn at(milliseconds: u64) -> BootInstant {
    BootInstant::from_nanos(milliseconds * 1_000_000)
}

fn ticket(bits: u128) -> Ticket {
    Ticket::from_bits(bits)
}

fn book(telling: Telling) -> Book {
    let mut book = Book::new(4, Duration::from_secs(3));
    book.attach(1, telling);
    book
}

fn depart(book: &mut Book, bits: u128, nearness: usize, now_ms: u64) -> oneshot::Receiver<Wake> {
    let (tell, end) = oneshot::channel();
    book.depart(ticket(bits), nearness, at(now_ms), tell);
    end
}

#[test]
fn looks_come_later_with_each_contender_between_up_to_a_second_and_are_spread_by_a_quarter() {
    let intervals = [0, 1, 2, 3, 4, 5, 40, usize::MAX].map(|nearness| interval(nearness).as_millis());
    assert_eq!(intervals, [50, 100, 150, 200, 250, 300, 1_000, 1_000]);
    let mut random = Random(1);
    let spread: Vec<_> = (0..1_000).map(|_| random.spread(Duration::from_secs(1)).as_millis()).collect();
    assert!(spread.iter().all(|one| (1_000..=1_250).contains(one)));
    assert!(spread.iter().any(|one| *one < 1_025) && spread.iter().any(|one| *one > 1_225));
}

#[test]
fn a_wait_is_looked_at_once_before_it_is_only_told() {
    let mut book = book(Telling::Told { since: at(1_000) });
    let _early = depart(&mut book, 1, 0, 3_999);
    let _late = depart(&mut book, 2, 0, 4_000);
    assert_eq!(book.next_due(), Some(at(3_999)));
    assert_eq!(book.take_due(at(4_000)), [ticket(1)]);
    assert_eq!(book.next_due(), None);
    book.look_again(&[ticket(1)], at(4_100));
    let again = book.next_due().expect("a look that failed is made again");
    assert!((at(4_150)..=at(4_163)).contains(&again), "{again:?}");
}

#[test]
fn what_is_due_soon_is_looked_at_together_and_each_contender_once() {
    let mut book = book(Telling::Looks);
    let waits = [1, 1, 2].map(|bits| depart(&mut book, bits, 0, 0));
    let _later = depart(&mut book, 3, 0, 40);
    assert_eq!(book.take_due(at(49)), []);
    let sorted = |mut taken: Vec<Ticket>| {
        taken.sort_unstable();
        taken
    };
    assert_eq!(sorted(book.take_due(at(63))), [1, 2].map(ticket));
    // Those that are due within half of their interval come along.
    assert_eq!(sorted(book.take_due(at(103))), [1, 2, 3].map(ticket));
    drop(waits);
}

#[test]
fn one_that_is_not_next_in_line_is_to_find_its_place_anew_where_nothing_tells() {
    let mut book = book(Telling::Looks);
    let mut far = depart(&mut book, 1, 3, 0);
    assert_eq!((book.take_due(at(199)), far.try_recv()), (Vec::new(), Err(oneshot::error::TryRecvError::Empty)));
    assert_eq!((book.take_due(at(251)), far.try_recv()), (Vec::new(), Ok(Wake::Look)));
    assert!(book.is_empty());
}

#[test]
fn a_beat_asks_for_the_nearest_and_for_the_others_in_turn() {
    let mut book = book(Telling::Looks);
    let _waits: Vec<_> =
        (0..200).map(|bits| depart(&mut book, bits, 200 - usize::try_from(bits).unwrap(), 0)).collect();
    let nearest: Vec<_> = (192..200).rev().map(ticket).collect();
    let mut asked = std::collections::BTreeSet::new();
    for _ in 0..4 {
        let awaited = book.next_awaited();
        assert_eq!((awaited.len(), &awaited[..8]), (64, &nearest[..]));
        asked.extend(awaited);
    }
    assert_eq!(asked.len(), 200);
}

#[test]
fn departures_without_a_wait_are_remembered_up_to_a_limit_and_not_over_a_new_connection() {
    let mut book = book(Telling::Soon);
    (0..=1_024).for_each(|bits| book.departed(ticket(bits)));
    assert!(depart(&mut book, 0, 0, 0).try_recv().is_err());
    assert_eq!(depart(&mut book, 1, 0, 0).try_recv(), Ok(Wake::Departed));
    book.attach(2, Telling::Soon);
    assert!(depart(&mut book, 1, 0, 0).try_recv().is_err());
}

#[test]
fn a_door_that_opened_for_nothing_is_not_waited_at_again() {
    let mut book = book(Telling::Looks);
    let _far = depart(&mut book, 1, 3, 0);
    let _near = depart(&mut book, 2, 1, 20);
    assert_eq!(book.next_door(at(49)), NextDoor { ticket: None, changes_at: Some(at(50)) });
    assert_eq!(book.next_door(at(50)), NextDoor { ticket: Some(ticket(1)), changes_at: Some(at(70)) });
    assert_eq!(book.next_door(at(70)), NextDoor { ticket: Some(ticket(2)), changes_at: None });
    book.opened(ticket(2), at(80));
    assert_eq!(book.next_due(), Some(at(80)));
    assert_eq!(book.next_door(at(80)).ticket, Some(ticket(1)));
}
