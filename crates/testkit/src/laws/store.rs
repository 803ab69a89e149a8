//! The laws of [`Store`], for the stores of this project and for stores that users implement.

use std::collections::BTreeMap;

use transfix_store::{Committed, Kind, Numbers, Record, Store, StoreError, Stored, Wake};

use crate::random::Random;

const KINDS: [Kind; 2] = [Kind::Admin, Kind::Application];

/// Checks every law of [`Store`]. `open` returns a new, empty store that was created at
/// `created_ns` and holds at least 64 KiB.
///
/// # Panics
/// If a law is broken.
pub fn store_laws(created_ns: u64, mut open: impl FnMut() -> Box<dyn Store>) {
    let mut open = || Box::new(Patient(open()));
    starts_with_one(&mut *open(), created_ns);
    nothing_before_commit(&mut *open());
    commit_of_nothing(&mut *open());
    outbound_is_found_as_it_was_put(&mut *open());
    inbound_does_not_move_next_in(&mut *open());
    numbers_are_set(&mut *open());
    outbound_at_or_above_next_out_is_hidden(&mut *open());
    holes_are_not_found(&mut *open());
    the_last_put_counts(&mut *open());
    reset_forgets(&mut *open());
    a_batch_may_reset_and_go_on(&mut *open());
    for seed in 0..8 {
        agrees_with_a_model(&mut *open(), created_ns, seed);
    }
}

/// Checks the laws of a store whose contents survive the process. Each call of `place` prepares a
/// new, empty location, created at `created_ns`. The returned closure opens the store there and is
/// called repeatedly; each opened store is dropped before the next call.
///
/// # Panics
/// If a law is broken.
pub fn lasting_store_laws<Open>(created_ns: u64, mut place: impl FnMut() -> Open)
where
    Open: FnMut() -> Box<dyn Store>,
{
    let mut place = || {
        let mut open = place();
        move || Box::new(Patient(open())) as Box<dyn Store>
    };
    what_is_committed_lasts(&mut place(), created_ns);
    what_is_not_committed_is_gone(&mut place());
    let queue = what_waits_lasts(&mut place());
    for seed in 0..8 {
        lasts_as_the_model_says(&mut place(), Model::new(created_ns, queue), seed);
    }
}

/// A store whose methods block until the data that they need has been fetched.
#[derive(Debug)]
pub struct Patient<S>(pub S);

impl Patient<Box<dyn Store>> {
    fn wait_for<T>(&mut self, ask: impl Fn(&mut dyn Store) -> Result<T, StoreError>) {
        while matches!(ask(&mut *self.0), Err(StoreError::NotYet)) {
            std::thread::yield_now();
        }
    }
}

impl Store for Patient<Box<dyn Store>> {
    fn numbers(&self) -> Numbers {
        self.0.numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.0.put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        self.0.commit()
    }

    fn safe(&mut self) -> Result<u64, StoreError> {
        self.0.safe()
    }

    fn wake_by(&mut self, wake: Wake) {
        self.0.wake_by(wake);
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.wait_for(|store| store.outbound(seq).map(drop));
        self.0.outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.wait_for(|store| store.inbound(seq).map(drop));
        self.0.inbound(seq)
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.wait_for(|store| store.queued(ticket).map(drop));
        self.0.queued(ticket)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.0.reopen()
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        while let Err(error) = self.0.refresh() {
            if !matches!(error, StoreError::NotYet) {
                return Err(error);
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

fn out(seq: u64, bytes: &[u8]) -> Record<'_> {
    Record::Outbound { seq, kind: Kind::Application, bytes }
}

fn put_all(store: &mut dyn Store, records: &[Record<'_>]) {
    for (position, record) in records.iter().enumerate() {
        store.put(100 + position as u64, *record).expect("put");
    }
}

fn commit_all(store: &mut dyn Store, records: &[Record<'_>]) {
    put_all(store, records);
    store.commit().expect("commit");
}

/// Ends the process that owns the store, after all commits are durable.
fn end(mut store: Box<dyn Store>) {
    let Committed::Pending(ticket) = store.commit().expect("commit") else { return };
    while store.safe().expect("safe") < ticket {
        std::thread::yield_now();
    }
    assert_eq!(store.commit().expect("commit"), Committed::Now, "all is safe");
}

fn found(store: &mut dyn Store, seq: u64) -> Option<Vec<u8>> {
    store.outbound(seq).expect("outbound").map(|stored| stored.bytes.to_vec())
}

fn starts_with_one(store: &mut dyn Store, created_ns: u64) {
    assert_eq!(store.numbers(), Numbers { next_in: 1, next_out: 1, created_ns });
    assert_eq!(store.outbound(1).expect("outbound"), None);
    assert_eq!(store.inbound(1).expect("inbound"), None);
}

fn nothing_before_commit(store: &mut dyn Store) {
    let before = store.numbers();
    put_all(store, &[out(1, b"one"), Record::NextIn(5)]);
    assert_eq!(store.numbers(), before);
    assert_eq!(found(store, 1), None);
    store.commit().expect("commit");
    assert_eq!((store.numbers().next_in, store.numbers().next_out), (5, 2));
    assert_eq!(found(store, 1), Some(b"one".to_vec()));
}

fn commit_of_nothing(store: &mut dyn Store) {
    store.put(100, out(1, b"one")).expect("put");
    let committed = store.commit().expect("commit");
    let before = store.numbers();
    let again = store.commit().expect("commit");
    assert!(again == committed || again == Committed::Now, "{committed:?}, then {again:?}");
    assert_eq!(store.numbers(), before);
}

fn outbound_is_found_as_it_was_put(store: &mut dyn Store) {
    let lengths = [0, 1, 7, 8, 9, 200, 4096, 10_000];
    let messages: Vec<Vec<u8>> =
        lengths.iter().map(|&length| (0..length).map(|at| (at * 7) as u8).collect()).collect();
    for (position, bytes) in messages.iter().enumerate() {
        let (seq, kind) = (position as u64 + 1, KINDS[position % 2]);
        store.put(1000 + seq, Record::Outbound { seq, kind, bytes }).expect("put");
        store.commit().expect("commit");
    }
    for (position, bytes) in messages.iter().enumerate() {
        let seq = position as u64 + 1;
        let stored = store.outbound(seq).expect("outbound").expect("found");
        assert_eq!((stored.seq, stored.kind), (seq, KINDS[position % 2]));
        assert_eq!((stored.time_ns, stored.bytes), (1000 + seq, &bytes[..]));
    }
}

fn inbound_does_not_move_next_in(store: &mut dyn Store) {
    let (kind, bytes) = (Kind::Admin, &b"in"[..]);
    commit_all(store, &[Record::Inbound { seq: 3, kind, bytes }]);
    assert_eq!(store.numbers().next_in, 1);
    let stored = store.inbound(3).expect("inbound").expect("found");
    assert_eq!((stored.seq, stored.kind, stored.bytes), (3, kind, bytes));
    assert_eq!(store.outbound(3).expect("outbound"), None);
}

fn numbers_are_set(store: &mut dyn Store) {
    commit_all(store, &[Record::NextIn(9), Record::NextOut(7), Record::NextIn(8)]);
    assert_eq!((store.numbers().next_in, store.numbers().next_out), (8, 7));
}

fn outbound_at_or_above_next_out_is_hidden(store: &mut dyn Store) {
    commit_all(store, &[out(1, b"a"), out(2, b"b"), out(3, b"c")]);
    commit_all(store, &[Record::NextOut(2)]);
    assert_eq!([found(store, 1), found(store, 2)], [Some(b"a".to_vec()), None]);
    commit_all(store, &[out(2, b"d")]);
    assert_eq!([found(store, 2), found(store, 3)], [Some(b"d".to_vec()), None]);
}

fn holes_are_not_found(store: &mut dyn Store) {
    commit_all(store, &[out(1, b"a"), Record::NextOut(1 << 50), out(1 << 50, b"far")]);
    let around = [1, 2, (1 << 50) - 1, 1 << 50, (1 << 50) + 1].map(|seq| found(store, seq));
    assert_eq!(around, [Some(b"a".to_vec()), None, None, Some(b"far".to_vec()), None]);
    assert_eq!(store.numbers().next_out, (1 << 50) + 1);
}

fn the_last_put_counts(store: &mut dyn Store) {
    commit_all(store, &[out(1, b"first"), out(1, b"second")]);
    assert_eq!(found(store, 1), Some(b"second".to_vec()));
    assert_eq!(store.numbers().next_out, 2);
}

fn reset_forgets(store: &mut dyn Store) {
    commit_all(store, &[out(1, b"a"), Record::NextIn(7)]);
    commit_all(store, &[Record::Inbound { seq: 6, kind: Kind::Admin, bytes: b"x" }]);
    store.put(77, Record::Reset).expect("put");
    store.commit().expect("commit");
    assert_eq!(store.numbers(), Numbers { next_in: 1, next_out: 1, created_ns: 77 });
    assert_eq!(found(store, 1), None);
    assert_eq!(store.inbound(6).expect("inbound"), None);
}

fn a_batch_may_reset_and_go_on(store: &mut dyn Store) {
    commit_all(store, &[out(1, b"a"), out(2, b"b")]);
    commit_all(store, &[out(3, b"c"), Record::Reset, out(1, b"new")]);
    assert_eq!([found(store, 1), found(store, 2)], [Some(b"new".to_vec()), None]);
    assert_eq!(store.numbers(), Numbers { next_in: 1, next_out: 2, created_ns: 101 });
}

/// The expected contents of a store in simple collections, to compare with the store.
#[derive(Clone)]
struct Model {
    numbers: Numbers,
    outbound: BTreeMap<u64, Vec<u8>>,
    inbound: BTreeMap<u64, Vec<u8>>,
    queue: Queue,
    waiting: BTreeMap<u64, Vec<u8>>,
}

impl Model {
    fn new(created_ns: u64, queue: Queue) -> Self {
        let numbers = Numbers { next_in: 1, next_out: 1, created_ns };
        let (outbound, inbound) = (BTreeMap::new(), BTreeMap::new());
        Self { numbers, outbound, inbound, queue, waiting: BTreeMap::new() }
    }

    /// Appends random records to both the store and the model, and commits them.
    fn turn(&mut self, store: &mut dyn Store, turn: u64, random: &mut Random) {
        for _ in 0..random.below(4) {
            let bytes = vec![random.next() as u8; random.below(120)];
            let near = 1 + random.below(40) as u64;
            let ticket = self.waiting.last_key_value().map_or(0, |(last, _)| *last) + 1;
            let record = match random.below(24) {
                0 => Record::Reset,
                1 => Record::NextOut(near),
                2..4 => Record::NextIn(near),
                4 => Record::Note("logged on"),
                5..9 => Record::Inbound { seq: near, kind: Kind::Admin, bytes: &bytes },
                9 => out(near, &bytes),
                20 => Record::Unqueued(ticket.saturating_sub(2).max(1)),
                21.. => Record::Queued { ticket, bytes: &bytes },
                _ => out(turn + 1, &bytes),
            };
            store.put(turn, record).expect("put");
            self.put(turn, record);
        }
        store.commit().expect("commit");
    }

    fn assert_found(&self, store: &mut dyn Store, seed: u64) {
        assert_eq!(store.numbers(), self.numbers, "seed {seed}");
        if self.queue == Queue::Kept {
            let expected: Vec<_> = self.waiting.clone().into_iter().collect();
            assert_eq!(waiting(store), expected, "seed {seed}");
        }
        for seq in 1..64 {
            let expected = self.outbound.get(&seq).cloned();
            assert_eq!(found(store, seq), expected, "seed {seed}, outbound {seq}");
            let inbound = store.inbound(seq).expect("inbound").map(|stored| stored.bytes.to_vec());
            let expected = self.inbound.get(&seq).cloned();
            assert_eq!(inbound, expected, "seed {seed}, inbound {seq}");
        }
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) {
        match record {
            Record::Outbound { seq, bytes, .. } => {
                self.outbound.split_off(&seq);
                self.outbound.insert(seq, bytes.to_vec());
                self.numbers.next_out = seq + 1;
            }
            Record::Inbound { seq, bytes, .. } => {
                self.inbound.insert(seq, bytes.to_vec());
            }
            Record::NextIn(seq) => self.numbers.next_in = seq,
            Record::NextOut(seq) => {
                self.outbound.split_off(&seq);
                self.numbers.next_out = seq;
            }
            Record::Reset => {
                self.outbound.clear();
                self.inbound.clear();
                self.numbers = Numbers { next_in: 1, next_out: 1, created_ns: now_ns };
            }
            Record::Queued { ticket, bytes } => _ = self.waiting.insert(ticket, bytes.to_vec()),
            Record::Unqueued(last) => self.waiting.retain(|ticket, _| *ticket > last),
            Record::Note(_) => {}
        }
    }
}

fn agrees_with_a_model(store: &mut dyn Store, created_ns: u64, seed: u64) {
    let (mut random, mut model) = (Random::new(seed), Model::new(created_ns, Queue::None));
    for turn in 0..60 {
        model.turn(store, turn, &mut random);
        model.assert_found(store, seed);
    }
}

fn what_is_committed_lasts(open: &mut dyn FnMut() -> Box<dyn Store>, created_ns: u64) {
    let mut store = open();
    let bytes = &b"in"[..];
    commit_all(&mut *store, &[out(1, b"one"), Record::NextIn(9)]);
    commit_all(&mut *store, &[Record::Inbound { seq: 8, kind: Kind::Admin, bytes }]);
    end(store);
    let mut store = open();
    assert_eq!(store.numbers(), Numbers { next_in: 9, next_out: 2, created_ns });
    let one = store.outbound(1).expect("outbound").expect("found");
    assert_eq!((one.kind, one.time_ns, one.bytes), (Kind::Application, 100, &b"one"[..]));
    let eight = store.inbound(8).expect("inbound").expect("found");
    assert_eq!((eight.kind, eight.time_ns, eight.bytes), (Kind::Admin, 100, bytes));
}

fn what_is_not_committed_is_gone(open: &mut dyn FnMut() -> Box<dyn Store>) {
    let mut store = open();
    commit_all(&mut *store, &[out(1, b"one")]);
    end(store);
    let mut store = open();
    put_all(&mut *store, &[out(2, b"two"), Record::NextIn(5)]);
    drop(store);
    let mut store = open();
    assert_eq!((store.numbers().next_in, store.numbers().next_out), (1, 2));
    assert_eq!([found(&mut *store, 1), found(&mut *store, 2)], [Some(b"one".to_vec()), None]);
    commit_all(&mut *store, &[out(2, b"again")]);
    assert_eq!(found(&mut *store, 2), Some(b"again".to_vec()));
}

/// The support of a store for queued messages, which wait to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    None,
    Kept,
}

/// Returns the queued messages of a store in ticket order.
fn waiting(store: &mut dyn Store) -> Vec<(u64, Vec<u8>)> {
    let (mut all, mut next) = (Vec::new(), 0);
    while let Some(stored) = store.queued(next).expect("queued") {
        assert!(stored.seq >= next, "tickets ascend");
        next = stored.seq + 1;
        all.push((stored.seq, stored.bytes.to_vec()));
    }
    all
}

fn what_waits_lasts(open: &mut dyn FnMut() -> Box<dyn Store>) -> Queue {
    let mut store = open();
    commit_all(&mut *store, &[Record::Queued { ticket: 3, bytes: b"a" }]);
    if waiting(&mut *store).is_empty() {
        return Queue::None;
    }
    commit_all(&mut *store, &[Record::Queued { ticket: 4, bytes: b"b" }, out(1, b"one")]);
    commit_all(&mut *store, &[Record::Reset, Record::Queued { ticket: 9, bytes: b"c" }]);
    end(store);
    let mut store = open();
    put_all(&mut *store, &[Record::Unqueued(9)]);
    let all = [(3, b"a".to_vec()), (4, b"b".to_vec()), (9, b"c".to_vec())];
    assert_eq!(waiting(&mut *store), all, "not committed");
    drop(store);
    let mut store = open();
    assert_eq!(waiting(&mut *store), all, "not committed");
    let first = store.queued(0).expect("queued").expect("waits");
    assert_eq!((first.kind, first.time_ns), (Kind::Application, 100));
    commit_all(&mut *store, &[out(1, b"a"), Record::Unqueued(4)]);
    assert_eq!(waiting(&mut *store), all[2..]);
    end(store);
    let mut store = open();
    assert_eq!(waiting(&mut *store), all[2..]);
    commit_all(&mut *store, &[Record::Unqueued(9), Record::Queued { ticket: 1, bytes: b"d" }]);
    assert_eq!(waiting(&mut *store), [(1, b"d".to_vec())], "tickets may begin anew");
    Queue::Kept
}

fn lasts_as_the_model_says(open: &mut dyn FnMut() -> Box<dyn Store>, mut model: Model, seed: u64) {
    let mut random = Random::new(seed);
    let mut store = open();
    for turn in 0..60 {
        model.turn(&mut *store, turn, &mut random);
        if random.below(3) == 0 {
            end(store);
            store = open();
        }
        model.assert_found(&mut *store, seed);
    }
}
