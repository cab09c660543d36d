//! The structs of a Parquet file's footer and page headers: the type of every field, as in parquet.thrift. The decoder
//! goes by field number without checking the type, so that one flipped bit can make it misread the rest.

use Shape::{Binary, Bool, Double, I8, I16, I32, I64, List, Struct};

/// The type of a field.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Bool,
    I8,
    I16,
    I32,
    I64,
    Double,
    Binary,
    List(&'static Shape),
    Struct(&'static [(u64, Shape)]),
}

impl Shape {
    /// Whether a Thrift type id is that of this shape.
    pub(super) fn is_kind(self, kind: u8) -> bool {
        match self {
            Bool => matches!(kind, 1 | 2),
            I8 => kind == 3,
            I16 => kind == 4,
            I32 => kind == 5,
            I64 => kind == 6,
            Double => kind == 7,
            Binary => kind == 8,
            List(_) => kind == 9,
            Struct(_) => kind == 12,
        }
    }
}

pub(super) const FILE: &[(u64, Shape)] = &[
    (1, I32),
    (2, List(&Struct(SCHEMA_ELEMENT))),
    (3, I64),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(KEY_VALUE))),
    (6, Binary),
    (7, List(&Struct(EMPTY_UNION))),
    (8, Struct(NOTHING)),
    (9, Binary),
];
const NOTHING: &[(u64, Shape)] = &[];
const EMPTY_UNION: &[(u64, Shape)] = &[(1, Struct(NOTHING)), (2, Struct(NOTHING)), (3, Struct(NOTHING))];
const KEY_VALUE: &[(u64, Shape)] = &[(1, Binary), (2, Binary)];
const SCHEMA_ELEMENT: &[(u64, Shape)] = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, Binary),
    (5, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, Struct(LOGICAL_TYPE)),
];
const LOGICAL_TYPE: &[(u64, Shape)] = &[
    (1, Struct(NOTHING)),
    (2, Struct(NOTHING)),
    (3, Struct(NOTHING)),
    (4, Struct(NOTHING)),
    (5, Struct(&[(1, I32), (2, I32)])),
    (6, Struct(NOTHING)),
    (7, Struct(TIME)),
    (8, Struct(TIME)),
    (10, Struct(&[(1, I8), (2, Bool)])),
    (11, Struct(NOTHING)),
    (12, Struct(NOTHING)),
    (13, Struct(NOTHING)),
    (14, Struct(NOTHING)),
    (15, Struct(NOTHING)),
    (16, Struct(&[(1, I8)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, I32)])),
];
const TIME: &[(u64, Shape)] = &[(1, Bool), (2, Struct(EMPTY_UNION))];
const ROW_GROUP: &[(u64, Shape)] = &[
    (1, List(&Struct(COLUMN_CHUNK))),
    (2, I64),
    (3, I64),
    (4, List(&Struct(&[(1, I32), (2, Bool), (3, Bool)]))),
    (5, I64),
    (6, I64),
    (7, I16),
];
const COLUMN_CHUNK: &[(u64, Shape)] = &[
    (1, Binary),
    (2, I64),
    (3, Struct(COLUMN)),
    (4, I64),
    (5, I32),
    (6, I64),
    (7, I32),
    (8, Struct(NOTHING)),
    (9, Binary),
];
const COLUMN: &[(u64, Shape)] = &[
    (1, I32),
    (2, List(&I32)),
    (3, List(&Binary)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (8, List(&Struct(KEY_VALUE))),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, Struct(STATISTICS)),
    (13, List(&Struct(&[(1, I32), (2, I32), (3, I32)]))),
    (14, I64),
    (15, I32),
    (16, Struct(&[(1, I64), (2, List(&I64)), (3, List(&I64))])),
    (17, Struct(&[(1, Struct(BOX)), (2, List(&I32))])),
];
const BOX: &[(u64, Shape)] =
    &[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)];
const STATISTICS: &[(u64, Shape)] =
    &[(1, Binary), (2, Binary), (3, I64), (4, I64), (5, Binary), (6, Binary), (7, Bool), (8, Bool), (9, I64)];

pub(super) const PAGE: &[(u64, Shape)] = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, I32),
    (5, Struct(&[(1, I32), (2, I32), (3, I32), (4, I32), (5, Struct(STATISTICS))])),
    (6, Struct(NOTHING)),
    (7, Struct(&[(1, I32), (2, I32), (3, Bool)])),
    (
        8,
        Struct(&[
            (1, I32),
            (2, I32),
            (3, I32),
            (4, I32),
            (5, I32),
            (6, I32),
            (7, Bool),
            (8, Struct(STATISTICS)),
        ]),
    ),
];
