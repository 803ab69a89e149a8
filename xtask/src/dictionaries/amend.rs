//! Amendments to the published files: rules that the files omit, or state in a form that programs
//! cannot use.
//!
//! Invariants: each amendment is one entry of [`AMENDMENTS`] with its reason. An amendment without
//! effect is an error, so that the list is corrected when the sources change.

use transfix_dictionary::{Code, DataType, Draft, DraftKind, DraftMember, Field};

enum Change {
    /// The fields accept other values in addition to their codes.
    Open(&'static [u32]),
    /// The fields have no codes, because the published codes are only examples and any value is
    /// accepted.
    NoCodes(&'static [u32]),
    /// The field has these additional codes.
    AddCodes(u32, &'static [(&'static str, &'static str)]),
    /// The fields have this data type.
    Type(&'static [u32], DataType),
    /// The component requires this field.
    Require { component: &'static str, tag: u32 },
    /// Each of the components requires the group that it contains.
    RequireGroups(&'static [&'static str]),
    /// The file includes all extension packs up to this number without stating so.
    Pack(u32),
    /// The group in the component may also contain the field `tag`, directly after the member
    /// `after`.
    AddToGroup { component: &'static str, tag: u32, after: After },
}

#[derive(Clone, Copy)]
enum After {
    Field(u32),
    Component(&'static str),
}

use Change::{AddCodes, AddToGroup, NoCodes, Open, Pack, Require, RequireGroups, Type};

const UP_TO_50SP1: &[&str] = &["FIX40", "FIX41", "FIX42", "FIX43", "FIX44", "FIX50", "FIX50SP1"];

const AMENDMENTS: &[(&[&str], Change)] = &[
    // IOIShares or IOIQty(27) is a quantity or one of the codes S, M, L. The QuickFIX file format
    // cannot express the quantity.
    (UP_TO_50SP1, Open(&[27])),
    // From FIX 5.0 on, SettlType(63) may also be a tenor such as D5 or M3.
    (&["FIX50", "FIX50SP1"], Open(&[63])),
    // DistribPaymentMethod(477) and PaymentMethod(492): the parties may agree on further codes from
    // 1000 on.
    (&["FIX44"], Open(&[477, 492])),
    // FIX 4.0 and 4.1 define quantities as int, but counterparties send values such as 100.00.
    // Therefore the data type of FIX 4.2 applies.
    (&["FIX40", "FIX41"], Type(&[14, 32, 38, 53, 80, 84, 110, 111, 134, 135], DataType::Qty)),
    (&["FIX41"], Type(&[151, 210], DataType::Qty)),
    // ExecInst(18) is a list of instructions separated by blanks in all versions.
    (&["FIX40", "FIX41"], Type(&[18], DataType::MultipleStringValue)),
    // Symbol(55) is required in Instrument according to the published text; the value `[N/A]` means
    // no symbol.
    (&["FIX43", "FIX44"], Require { component: "Instrument", tag: 55 }),
    // OrdRejReason(103) has a code that is only in the standard's own file.
    (&["FIX44"], AddCodes(103, &[("12", "SURVEILLANCE_OPTION")])),
    // ClearingFeeIndicator(635) and OrigOrdModTime(586) are members only in the standard's own
    // file. Without the amendment, a correct message would be rejected.
    (
        &["FIX44"],
        AddToGroup {
            component: "TrdCapRptSideGrp",
            tag: 635,
            after: After::Component("ClrInstGrp"),
        },
    ),
    (
        &["FIX44"],
        AddToGroup { component: "SideCrossOrdModGrp", tag: 586, after: After::Field(583) },
    ),
    // Extension pack 280 introduced the newest field of the file,
    // SelfMatchPreventionInstruction(2964).
    (&["FIX50SP2"], Pack(280)),
    // The file requires these components, but lacks the required flag of the groups in them. FIX
    // 5.0 SP1 and FIX Latest both require the groups.
    (
        &["FIX50SP2"],
        RequireGroups(&[
            "BidCompRspGrp",
            "CompIDStatGrp",
            "CpctyConfGrp",
            "InstrmtMDReqGrp",
            "InstrmtStrkPxGrp",
            "LinesOfTextGrp",
            "ListOrdGrp",
            "MDFullGrp",
            "MDIncGrp",
            "MDReqGrp",
            "OrdListStatGrp",
            "QuotEntryGrp",
            "QuotReqGrp",
            "QuotReqRjctGrp",
            "QuotSetGrp",
            "RFQReqGrp",
            "SideCrossOrdCxlGrp",
            "SideCrossOrdModGrp",
            "TrdCapRptSideGrp",
            "TrdSessLstGrp",
        ]),
    ),
    // The file also lacks the required flag of these groups. In FIX 5.0 SP1 the groups are optional
    // or missing, but FIX Latest requires them.
    (
        &["FIX50SP2"],
        RequireGroups(&[
            "ExpirationQty",
            "MDStatisticReqGrp",
            "MDStatisticRptGrp",
            "MarginAmount",
            "MarginReqmtInqQualGrp",
            "OrderEntryGrp",
            "Parties",
            "PartyDetailsUpdateGrp",
            "PartyEntitlementUpdateGrp",
            "PositionQty",
            "SettlObligationInstructions",
            "StrmAsgnReqGrp",
            "TargetParties",
        ]),
    ),
    // RefMsgType(372) may contain any message type that a counterparty sends or accepts, including
    // custom types.
    (&["FIXT11", "FIXLatest"], NoCodes(&[372])),
    (&["FIXLatest"], NoCodes(&[1619])),
    // In the session layer's file, MsgType(35) lists only the session-level messages.
    (&["FIXT11"], NoCodes(&[35])),
];

/// Applies the amendments for this version to a draft of the dictionary.
///
/// # Errors
/// If an amendment has nothing to change.
pub(crate) fn amend(draft: &mut Draft, version: &str) -> Result<(), String> {
    for (versions, change) in AMENDMENTS {
        if versions.contains(&version) && !change.apply(draft) {
            return Err(format!("{version}: an amendment changes nothing; remove it: {change:?}"));
        }
    }
    Ok(())
}

/// Opens each field of `draft` that is open in `other`, because the file format of `draft` cannot
/// express that values beside the codes are allowed.
pub(crate) fn open_as(draft: &mut Draft, other: &Draft) {
    let open = |tag: u32| other.fields.iter().any(|field| field.tag == tag && field.open);
    for field in draft.fields.iter_mut().filter(|field| !field.codes.is_empty()) {
        field.open |= open(field.tag);
    }
}

impl Change {
    /// Applies this change to the draft. Returns true if all named items existed and changed.
    fn apply(&self, draft: &mut Draft) -> bool {
        match self {
            Open(tags) => each_field(draft, tags, |f| !std::mem::replace(&mut f.open, true)),
            NoCodes(tags) => each_field(draft, tags, |field| {
                let had_any = !field.codes.is_empty();
                field.codes.clear();
                had_any
            }),
            AddCodes(tag, codes) => each_field(draft, &[*tag], |field| add_codes(field, codes)),
            Type(tags, data_type) => each_field(draft, tags, |field| {
                std::mem::replace(&mut field.data_type, *data_type) != *data_type
            }),
            Require { component, tag } => {
                let members = members_of(draft, component);
                members
                    .iter_mut()
                    .filter(|m| m.kind == DraftKind::Field(*tag))
                    .any(|member| !std::mem::replace(&mut member.required, true))
            }
            RequireGroups(components) => components.iter().all(|component| {
                let mut members = members_of(draft, component).iter_mut();
                let group = members.find(|m| matches!(m.kind, DraftKind::Group { .. }));
                group.is_some_and(|group| !std::mem::replace(&mut group.required, true))
            }),
            Pack(pack) => draft.extension_pack.replace(*pack) != Some(*pack),
            AddToGroup { component, tag, after } => {
                let mut groups = members_of(draft, component).iter_mut();
                groups.any(|member| add_to_group(member, *tag, *after))
            }
        }
    }
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Open(tags) => write!(f, "open {tags:?}"),
            NoCodes(tags) => write!(f, "no codes of {tags:?}"),
            AddCodes(tag, _) => write!(f, "add codes of {tag}"),
            Type(tags, data_type) => write!(f, "type {data_type} of {tags:?}"),
            Require { component, tag } => write!(f, "require {tag} in {component}"),
            RequireGroups(components) => write!(f, "require the groups of {components:?}"),
            Pack(pack) => write!(f, "extension pack {pack}"),
            AddToGroup { component, tag, .. } => write!(f, "add {tag} to the group of {component}"),
        }
    }
}

/// Applies `change` to each of the fields. Returns true if all fields existed and changed.
fn each_field(draft: &mut Draft, tags: &[u32], change: impl Fn(&mut Field) -> bool) -> bool {
    tags.iter().all(|tag| draft.fields.iter_mut().find(|f| f.tag == *tag).is_some_and(&change))
}

fn add_codes(field: &mut Field, codes: &[(&str, &str)]) -> bool {
    let before = field.codes.len();
    for (value, name) in codes {
        if !field.codes.iter().any(|code| code.value == *value) {
            field.codes.push(Code { value: (*value).to_owned(), name: (*name).to_owned() });
        }
    }
    field.codes.len() > before
}

fn add_to_group(group: &mut DraftMember, tag: u32, after: After) -> bool {
    let DraftKind::Group { members, .. } = &mut group.kind else { return false };
    let is_before = |kind: &DraftKind| match after {
        After::Field(tag) => *kind == DraftKind::Field(tag),
        After::Component(name) => *kind == DraftKind::Component(name.to_owned()),
    };
    let has_it = members.iter().any(|member| member.kind == DraftKind::Field(tag));
    match members.iter().position(|member| is_before(&member.kind)) {
        Some(place) if !has_it => {
            let kind = DraftKind::Field(tag);
            members.insert(
                place + 1,
                DraftMember { required: false, required_if: None, kind, line: 0 },
            );
            true
        }
        _ => false,
    }
}

fn members_of<'d>(draft: &'d mut Draft, component: &str) -> &'d mut [DraftMember] {
    let found = draft.components.iter_mut().find(|known| known.name == component);
    found.map_or(&mut [], |component| &mut component.members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_required_once_and_only_where_they_are() {
        let text = "<fix major='4' minor='4'><components><component name='C'>\
                    <group name='NoA' required='N'><field name='A' required='N'/></group>\
                    </component><component name='D'><field name='A' required='N'/></component>\
                    </components><fields><field number='1' name='NoA' type='NUMINGROUP'/>\
                    <field number='2' name='A' type='INT'/></fields></fix>";
        let mut draft = Draft::from_xml(text, "a.xml").unwrap();
        assert!(RequireGroups(&["C"]).apply(&mut draft));
        assert!(draft.components[0].members[0].required);
        for none in ["C", "D", "E"] {
            assert!(!RequireGroups(Vec::leak(vec![none])).apply(&mut draft), "{none}");
        }
    }

    #[test]
    fn an_amendment_without_effect_is_noticed() {
        let text = "<fix major='4' minor='4'><components><component name='Instrument'>\
                    <field name='Symbol' required='N'/></component></components><fields>\
                    <field number='55' name='Symbol' type='INT'/></fields></fix>";
        let mut draft = Draft::from_xml(text, "a.xml").unwrap();
        let require = Require { component: "Instrument", tag: 55 };
        assert!(require.apply(&mut draft) && draft.components[0].members[0].required);
        assert!(!require.apply(&mut draft));
        assert!(Type(&[55], DataType::String).apply(&mut draft));
        assert!(!Type(&[55], DataType::String).apply(&mut draft));
        assert!(!Open(&[56]).apply(&mut draft));
        assert!(Pack(1).apply(&mut draft) && !Pack(1).apply(&mut draft));
        assert!(amend(&mut draft, "FIX44").is_err());
        assert!(amend(&mut draft, "FIX99").is_ok());
    }
}
