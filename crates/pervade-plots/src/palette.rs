//! Colours and shapes of classes.

/// Red, green, blue.
pub type Colour = [u8; 3];

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A disc.
    Circle,
    /// A triangle that points up.
    Triangle,
    /// A square.
    Square,
    /// A square standing on a corner.
    Diamond,
    /// A diagonal cross.
    Cross,
}

/// For text and frames.
pub const BLACK: Colour = [20, 20, 20];
/// For ticks and leader lines.
pub const GREY: Colour = [110, 110, 110];
/// For grid lines.
pub const PALE: Colour = [222, 222, 222];
/// For the page's background.
pub const WHITE: Colour = [255, 255, 255];

/// The colour-blind safe palette of Okabe and Ito, "Color Universal Design" (2008), extended by a grey and a dark
/// brown, so that ten classes have ten colours.
pub const OKABE_ITO: [Colour; 10] = [
    [0, 114, 178],   // blue
    [230, 159, 0],   // orange
    [0, 158, 115],   // bluish green
    [213, 94, 0],    // vermillion
    [86, 180, 233],  // sky blue
    [204, 121, 167], // reddish purple
    [240, 228, 66],  // yellow
    [0, 0, 0],       // black
    [150, 150, 150], // grey
    [120, 66, 24],   // brown
];

/// The colour of a class; the colours repeat after ten, with other shapes.
pub fn class_colour(class: usize) -> Colour {
    OKABE_ITO[class % OKABE_ITO.len()]
}

/// The shape of a class: no two of the first fifty share both colour and shape.
pub fn class_shape(class: usize) -> Shape {
    const SHAPES: [Shape; 5] = [Shape::Circle, Shape::Triangle, Shape::Square, Shape::Diamond, Shape::Cross];
    SHAPES[(class + class / SHAPES.len()) % SHAPES.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_classes_look_alike() {
        let looks: Vec<(Colour, Shape)> =
            (0..50).map(|class| (class_colour(class), class_shape(class))).collect();
        assert!((0..50).all(|i| (0..i).all(|j| looks[i] != looks[j])));
    }
}
