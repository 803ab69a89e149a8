//! Streams allocate nothing once the connection is established.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use transfix_testkit::alloc::thread_allocations;
use transfix_transport::{Stream, memory};

#[test]
fn memory_streams_do_not_allocate() {
    let (mut a, mut b) = memory::pipe(1000);
    let mut buf = [0; 300];
    let before = thread_allocations();
    for _ in 0..100 {
        assert_eq!(a.write(&[1; 300]).unwrap(), 300);
        assert_eq!(b.read(&mut buf).unwrap(), 300);
        assert!(b.read(&mut buf).is_err());
    }
    assert_eq!(thread_allocations() - before, 0);
}
