//! Data fields, whose value may contain the delimiter because a Length field gives the value's
//! length.
//!
//! In FIX, the Length field precedes a value of type "data" and determines where the value ends.

use crate::Tag;

/// Tags of each Length field and its data field in the standard versions, FIX 4.0 to FIX Latest.
const PAIRS: [(u32, u32); 83] = [
    (93, 89),
    (90, 91),
    (95, 96),
    (212, 213),
    (348, 349),
    (350, 351),
    (352, 353),
    (354, 355),
    (356, 357),
    (358, 359),
    (360, 361),
    (362, 363),
    (364, 365),
    (445, 446),
    (618, 619),
    (621, 622),
    (1184, 1185),
    (1277, 1278),
    (1280, 1281),
    (1282, 1283),
    (1397, 1398),
    (1401, 1402),
    (1403, 1404),
    (1468, 1469),
    (1525, 1527),
    (1578, 1579),
    (1620, 1621),
    (1664, 1665),
    (1678, 1697),
    (1733, 1734),
    (1871, 1872),
    (1874, 1875),
    (2072, 2073),
    (2074, 2075),
    (2111, 2112),
    (2179, 2180),
    (2287, 2288),
    (2351, 2352),
    (2372, 2371),
    (2481, 2482),
    (2494, 2493),
    (2522, 2521),
    (2637, 2638),
    (2651, 2652),
    (2665, 2666),
    (2715, 2716),
    (2718, 2719),
    (2721, 2722),
    (2797, 2798),
    (2802, 2801),
    (2809, 2808),
    (2815, 2814),
    (40004, 40005),
    (40008, 40009),
    (40978, 40979),
    (40980, 40981),
    (40982, 40983),
    (40984, 40985),
    (40986, 40987),
    (40988, 40989),
    (41083, 41084),
    (41101, 41102),
    (41107, 41108),
    (41256, 41257),
    (41320, 41321),
    (41324, 41325),
    (41458, 41459),
    (41476, 41477),
    (41482, 41483),
    (41653, 41654),
    (41710, 41711),
    (41806, 41807),
    (41811, 41812),
    (41873, 41874),
    (41969, 41970),
    (42025, 42026),
    (42171, 42172),
    (42451, 42452),
    (43110, 42486),
    (42652, 42653),
    (43109, 42684),
    (42947, 42948),
    (43111, 42982),
];

/// Returns the Length field that must precede the data field `tag`; `None` if `tag` is not a data
/// field.
#[must_use]
pub fn length_of(tag: Tag) -> Option<Tag> {
    // Most calls ask about a tag that is no data field, so the bit set is checked before the
    // search.
    let word = DATA.get(tag.0 as usize / 64)?;
    if word & (1 << (tag.0 % 64)) == 0 {
        return None;
    }
    PAIRS.iter().find(|pair| pair.1 == tag.0).map(|pair| Tag(pair.0))
}

/// Number of 64-bit words in [`DATA`], enough for the highest tag of a data field, 42982.
const WORDS: usize = 43_000 / 64 + 1;

/// A bit per tag, set for data fields.
pub(crate) static DATA: [u64; WORDS] = {
    let mut bits = [0; WORDS];
    let mut i = 0;
    while i < PAIRS.len() {
        let tag = PAIRS[i].1;
        bits[tag as usize / 64] |= 1 << (tag % 64);
        i += 1;
    }
    bits
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (length, data) in PAIRS {
            assert_eq!(length_of(Tag(data)), Some(Tag(length)));
        }
        assert_eq!(length_of(Tag(58)), None);
        assert_eq!(length_of(Tag(5001)), None);
    }
}
