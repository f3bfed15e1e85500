//! Where the boxes of a picture stand, and which way its arrows go.
//!
//! Boxes stand in layers, so that arrows lead from each layer to a later one; the few that lead back go round. Within a
//! layer a box stands near those that it is joined with.

use crate::picture::WaitPicture;

/// How often the order within the layers is mended, once forwards and once back: more changes nothing in pictures of
/// this size.
const SWEEPS: usize = 3;

/// What is free at the edges of a picture, in pixels: an arrow that leads back has room there.
const MARGIN: u32 = 28;

/// Which way a picture is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ReadingDirection {
    /// From left to right, in bands of four layers, for a wide page.
    Across,
    /// From top to bottom, for a narrow one.
    Down,
}

/// Where everything stands, in pixels from the upper left corner.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PictureLayout {
    /// How wide the picture is.
    pub width: u32,
    /// How high it is.
    pub height: u32,
    /// The boxes, by their numbers.
    pub boxes: Vec<Rectangle>,
    /// The arrows in their order, each a curve: where it begins, two points that it bends towards, where it ends.
    pub curves: Vec<[(i64, i64); 4]>,
}

/// A box.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Rectangle {
    /// Its left edge.
    pub x: u32,
    /// Its upper edge.
    pub y: u32,
    /// How wide it is.
    pub width: u32,
    /// How high it is.
    pub height: u32,
}

/// The measures of a way of reading, in pixels.
struct LayoutMeasures {
    width: u32,
    height: u32,
    /// Between boxes beside each other, and below each other.
    gap: (u32, u32),
    /// How many boxes fit beside each other.
    abreast: usize,
}

impl ReadingDirection {
    const fn measures(self) -> LayoutMeasures {
        match self {
            Self::Across => LayoutMeasures { width: 178, height: 46, gap: (46, 20), abreast: 4 },
            Self::Down => LayoutMeasures { width: 156, height: 46, gap: (14, 34), abreast: 2 },
        }
    }
}

impl PictureLayout {
    /// Lays a picture out.
    pub fn new(picture: &WaitPicture, reading: ReadingDirection) -> Self {
        let layers = layers(picture);
        let measures = reading.measures();
        let count = picture.boxes.len();
        let (boxes, bands) = match reading {
            ReadingDirection::Across => across(&layers, &measures, count),
            ReadingDirection::Down => down(&layers, &measures, count),
        };
        let right = boxes.iter().map(|one| one.x + one.width).max().unwrap_or(0);
        let low = boxes.iter().map(|one| one.y + one.height).max().unwrap_or(0);
        let curves = picture.arrows.iter().map(|arrow| {
            let is_one_band = bands[arrow.from] == bands[arrow.to] && reading == ReadingDirection::Across;
            curve(&boxes[arrow.from], &boxes[arrow.to], is_one_band)
        });
        Self { width: right + MARGIN, height: low + MARGIN / 2, curves: curves.collect(), boxes }
    }
}

/// Layers become columns, four to a band; returns the boxes, and the band of each.
fn across(layers: &[Vec<usize>], measures: &LayoutMeasures, count: usize) -> (Vec<Rectangle>, Vec<usize>) {
    let (mut boxes, mut bands) = (vec![Rectangle::default(); count], vec![0; count]);
    let mut top = MARGIN;
    for (band, columns) in layers.chunks(measures.abreast).enumerate() {
        for (column, layer) in (0..).zip(columns) {
            for (row, &number) in (0..).zip(layer) {
                let x = MARGIN + column * (measures.width + measures.gap.0);
                let y = top + row * (measures.height + measures.gap.1);
                boxes[number] = Rectangle { x, y, width: measures.width, height: measures.height };
                bands[number] = band;
            }
        }
        let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
        // Arrows to the next band cross the space between.
        top += u32::try_from(rows).unwrap_or(0) * (measures.height + measures.gap.1) + MARGIN;
    }
    (boxes, bands)
}

/// Layers become rows, more than one where they are too long.
fn down(layers: &[Vec<usize>], measures: &LayoutMeasures, count: usize) -> (Vec<Rectangle>, Vec<usize>) {
    let (mut boxes, mut bands) = (vec![Rectangle::default(); count], vec![0; count]);
    let mut top = MARGIN / 2;
    for (band, layer) in layers.iter().enumerate() {
        for row in layer.chunks(measures.abreast) {
            for (column, &number) in (0..).zip(row) {
                let x = MARGIN + column * (measures.width + measures.gap.0);
                boxes[number] = Rectangle { x, y: top, width: measures.width, height: measures.height };
                bands[number] = band;
            }
            top += measures.height + measures.gap.1;
        }
    }
    (boxes, bands)
}

/// Leads from one box to another: to the right within a band, else downwards, and back by the edge.
fn curve(from: &Rectangle, to: &Rectangle, is_one_band: bool) -> [(i64, i64); 4] {
    let number = i64::from;
    let middle = |one: &Rectangle| (number(one.x) + number(one.width) / 2, number(one.y) + number(one.height) / 2);
    let ((from_x, from_y), (to_x, to_y)) = (middle(from), middle(to));
    if is_one_band && from.x < to.x {
        let (begin, end) = (number(from.x + from.width), number(to.x));
        let half = i64::midpoint(begin, end);
        return [(begin, from_y), (half, from_y), (half, to_y), (end, to_y)];
    }
    if from.y < to.y && !is_one_band {
        let (begin, end) = (number(from.y + from.height), number(to.y));
        let half = i64::midpoint(begin, end);
        return [(from_x, begin), (from_x, half), (to_x, half), (to_x, end)];
    }
    if is_one_band {
        // Over the boxes in between; a curve goes three quarters of the way to the points that it bends towards.
        let above = number(from.y.min(to.y)) - number(MARGIN) * 5 / 4;
        return [(from_x, number(from.y)), (from_x, above), (to_x, above), (to_x, number(to.y))];
    }
    let edge = number(from.x.min(to.x)) - number(MARGIN) * 5 / 4;
    [(number(from.x), from_y), (edge, from_y), (edge, to_y), (number(to.x), to_y)]
}

/// Puts the boxes into layers, and each layer into an order.
fn layers(picture: &WaitPicture) -> Vec<Vec<usize>> {
    let count = picture.boxes.len();
    let forward = forward(picture);
    let mut layer = vec![0_usize; count];
    // Each arrow forward makes its end later: no box is later than there are boxes.
    for _ in 0..count {
        for &(from, to) in &forward {
            layer[to] = layer[to].max(layer[from] + 1);
        }
    }
    // What nothing leads to stands next to what it leads to.
    for number in 0..count {
        if forward.iter().all(|&(_, to)| to != number)
            && let Some(first) = forward.iter().filter(|&&(from, _)| from == number).map(|&(_, to)| layer[to]).min()
        {
            layer[number] = first - 1;
        }
    }
    let mut layers = vec![Vec::new(); layer.iter().max().map_or(0, |last| last + 1)];
    (0..count).for_each(|number| layers[layer[number]].push(number));
    layers.retain(|layer: &Vec<usize>| !layer.is_empty());
    mend(&mut layers, &forward, count);
    layers
}

/// The arrows, without the ones that close a circle.
fn forward(picture: &WaitPicture) -> Vec<(usize, usize)> {
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        Never,
        Now,
        Done,
    }
    let count = picture.boxes.len();
    let next = |number: usize| picture.arrows.iter().filter(move |arrow| arrow.from == number).map(|arrow| arrow.to);
    let (mut visits, mut kept) = (vec![Visit::Never; count], Vec::new());
    for start in 0..count {
        if visits[start] != Visit::Never {
            continue;
        }
        visits[start] = Visit::Now;
        let mut path = vec![(start, next(start).collect::<Vec<_>>())];
        while let Some((number, ahead)) = path.last_mut() {
            let from = *number;
            let Some(to) = ahead.pop() else {
                visits[from] = Visit::Done;
                path.pop();
                continue;
            };
            if visits[to] != Visit::Now {
                kept.push((from, to));
            }
            if visits[to] == Visit::Never {
                visits[to] = Visit::Now;
                path.push((to, next(to).collect()));
            }
        }
    }
    kept
}

/// Orders each layer by where the boxes stand that its boxes are joined with.
fn mend(layers: &mut [Vec<usize>], joined: &[(usize, usize)], count: usize) {
    let mut place = vec![0_usize; count];
    let note = |place: &mut Vec<usize>, layer: &[usize]| {
        layer.iter().enumerate().for_each(|(at, &number)| place[number] = at);
    };
    layers.iter().for_each(|layer| note(&mut place, layer));
    for sweep in 0..SWEEPS * 2 {
        let is_back = sweep % 2 == 1;
        let order: Vec<usize> = if is_back { (0..layers.len()).rev().collect() } else { (0..layers.len()).collect() };
        for at in order {
            let mut keyed: Vec<(usize, usize, usize)> = Vec::new();
            for (old, &number) in layers[at].iter().enumerate() {
                let beside = joined.iter().filter_map(|&(from, to)| match is_back {
                    false => (to == number).then(|| place[from]),
                    true => (from == number).then(|| place[to]),
                });
                let (mut sum, mut found) = (0, 0);
                beside.for_each(|one| (sum, found) = (sum + one, found + 1));
                // In thousandths, so that halves are told apart.
                keyed.push(((sum * 1_000).checked_div(found).unwrap_or(old * 1_000), old, number));
            }
            keyed.sort_unstable();
            layers[at] = keyed.into_iter().map(|(_, _, number)| number).collect();
            note(&mut place, &layers[at]);
        }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper::{ContenderId, ContenderInfo, Mode, QueueName};

    use super::*;
    use crate::picture::{BOXES_MAX, Depicted};

    /// As many boxes, with these arrows.
    fn picture(count: usize, arrows: &[(usize, usize)]) -> WaitPicture {
        use crate::picture::{Arrow, Says};
        let info = |number| ContenderInfo::new(ContenderId::new(format!("c{number}")), Mode::Mutex);
        let depicted = |number| match number % 2 {
            0 => Depicted::Flow(Box::new(info(number))),
            _ => Depicted::Lock(QueueName::new(&format!("l{number}")).unwrap()),
        };
        let arrow = |&(from, to): &(usize, usize)| Arrow { from, to, says: Says::WaitsFor, is_core: true };
        WaitPicture { boxes: (0..count).map(depicted).collect(), arrows: arrows.iter().map(arrow).collect() }
    }

    fn overlap(one: &Rectangle, other: &Rectangle) -> bool {
        one.x < other.x + other.width
            && other.x < one.x + one.width
            && one.y < other.y + other.height
            && other.y < one.y + one.height
    }

    /// Checks that no box is upon another or outside of the picture.
    fn assert_is_clear(layout: &PictureLayout) {
        for (number, one) in layout.boxes.iter().enumerate() {
            assert!(one.x + one.width <= layout.width && one.y + one.height <= layout.height, "{number}: {one:?}");
            let other = layout.boxes[number + 1..].iter().find(|other| overlap(one, other));
            assert_eq!(other, None, "{number} {one:?}");
        }
    }

    fn circle(count: usize) -> WaitPicture {
        picture(count, &(0..count).map(|number| (number, (number + 1) % count)).collect::<Vec<_>>())
    }

    #[test]
    fn a_circle_of_two_flows_and_two_locks_is_one_band_with_one_arrow_back() {
        let layout = PictureLayout::new(&circle(4), ReadingDirection::Across);
        let lefts: Vec<_> = layout.boxes.iter().map(|one| one.x).collect();
        assert!(lefts.is_sorted() && layout.boxes.iter().all(|one| one.y == layout.boxes[0].y), "{layout:?}");
        let back: Vec<_> = layout.curves.iter().filter(|curve| curve[0].0 > curve[3].0).collect();
        assert_eq!(back.len(), 1, "{layout:?}");
        assert!(layout.width <= 920, "{}", layout.width);
        assert_is_clear(&layout);
    }

    #[test]
    fn in_the_greatest_picture_no_box_is_upon_another_and_a_telephone_shows_it_without_moving_sideways() {
        let circle = circle(BOXES_MAX);
        assert_is_clear(&PictureLayout::new(&circle, ReadingDirection::Across));
        let narrow = PictureLayout::new(&circle, ReadingDirection::Down);
        assert_is_clear(&narrow);
        assert!(narrow.width <= 390, "{}", narrow.width);
    }

    #[test]
    fn boxes_stay_apart_in_any_picture() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % below as u64).unwrap()
        };
        for _ in 0..500 {
            let count = 1 + next(BOXES_MAX);
            let arrows: Vec<_> = (0..next(3 * count)).map(|_| (next(count), next(count))).collect();
            let picture = picture(count, &arrows);
            for reading in [ReadingDirection::Across, ReadingDirection::Down] {
                let layout = PictureLayout::new(&picture, reading);
                assert_is_clear(&layout);
                let lowest = layout.curves.iter().flatten().map(|point| point.0.min(point.1)).min();
                assert!(lowest.is_none_or(|lowest| lowest >= -10), "{count} {arrows:?} {lowest:?}");
            }
        }
    }

    #[test]
    fn those_who_wait_behind_stand_beside_those_who_wait_first() {
        // Two flows and two locks in a circle, and one more that waits for each lock.
        let picture = picture(6, &[(0, 1), (1, 2), (2, 3), (3, 0), (4, 1), (5, 3)]);
        let layout = PictureLayout::new(&picture, ReadingDirection::Across);
        assert_eq!((layout.boxes[4].x, layout.boxes[5].x), (layout.boxes[0].x, layout.boxes[2].x), "{layout:?}");
        assert!(layout.boxes[4].y > layout.boxes[0].y && layout.boxes[5].y > layout.boxes[2].y, "{layout:?}");
    }
}
