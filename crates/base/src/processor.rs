//! Loads data into the processor's cache ahead of its use.

/// Requests that the cache line of `value` be loaded into the first-level cache, without waiting for it.
pub fn fetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is a hint that reads nothing and does not fail for any address; all x86-64
        // processors have it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
