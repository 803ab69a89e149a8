//! An order's values in an application's form.

use rust_decimal::Decimal;

use crate::Outcome;

pub(crate) struct Order {
    pub(crate) seq: u64,
    pub(crate) sender_sub_id: String,
    pub(crate) account: String,
    pub(crate) cl_ord_id: String,
    pub(crate) order_qty: Decimal,
    pub(crate) price: Option<Decimal>,
    pub(crate) ord_type: char,
    pub(crate) side: char,
    pub(crate) symbol: String,
    pub(crate) text: Option<String>,
    pub(crate) time_in_force: char,
    pub(crate) security_desc: String,
    pub(crate) security_type: String,
}

/// The fields of a frame by their tags.
pub(crate) struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    pub(crate) fn of(frame: &'a [u8]) -> Outcome<Self> {
        Ok(Self(std::str::from_utf8(frame)?))
    }

    fn find(&self, tag: &str) -> Option<&'a str> {
        let fields = self.0.split('\u{1}').filter_map(|field| field.split_once('='));
        fields.filter(|field| field.0 == tag).map(|field| field.1).next()
    }

    pub(crate) fn text(&self, tag: &str) -> Outcome<String> {
        self.find(tag).map(str::to_owned).ok_or_else(|| format!("no {tag}").into())
    }

    pub(crate) fn char(&self, tag: &str) -> Outcome<char> {
        let char = self.find(tag).and_then(|text| text.chars().next());
        char.ok_or_else(|| format!("no {tag}").into())
    }
}

impl Order {
    pub(crate) fn of(frame: &[u8]) -> Outcome<Self> {
        let fields = Fields::of(frame)?;
        let text = |tag| fields.text(tag);
        let char = |tag| fields.char(tag);
        Ok(Self {
            seq: text("34")?.parse()?,
            sender_sub_id: text("50")?,
            account: text("1")?,
            cl_ord_id: text("11")?,
            order_qty: text("38")?.parse()?,
            price: fields.find("44").map(str::parse).transpose()?,
            ord_type: char("40")?,
            side: char("54")?,
            symbol: text("55")?,
            text: fields.find("58").map(str::to_owned),
            time_in_force: char("59")?,
            security_desc: text("107")?,
            security_type: text("167")?,
        })
    }

    /// Returns the number of body fields.
    pub(crate) fn fields(&self) -> usize {
        11 + usize::from(self.price.is_some()) + usize::from(self.text.is_some())
    }
}

/// Tags of the text fields in the body.
pub(crate) const TEXTS: [u32; 6] = [1, 11, 55, 58, 107, 167];
/// Tags of the single-character fields.
pub(crate) const CHARS: [u32; 4] = [21, 40, 54, 59];
