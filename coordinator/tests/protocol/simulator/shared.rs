//! A part of the [`World`](super::World) that most worlds share with their predecessor. It is copied when
//! it changes, and its digest is calculated once.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::digest::digest;

#[derive(Clone, Debug)]
pub(super) struct Shared<T>(Arc<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    value: T,
    digest: OnceLock<u128>,
}

impl<T> Inner<T> {
    fn new(value: T) -> Inner<T> {
        Inner {
            value,
            digest: OnceLock::new(),
        }
    }
}

/// A clone is made in order to be changed.
impl<T: Clone> Clone for Inner<T> {
    fn clone(&self) -> Inner<T> {
        Inner::new(self.value.clone())
    }
}

impl<T> Shared<T> {
    pub fn new(value: T) -> Shared<T> {
        Shared(Arc::new(Inner::new(value)))
    }
}

impl<T: Clone> Shared<T> {
    pub fn make_mut(&mut self) -> &mut T {
        let inner = Arc::make_mut(&mut self.0);
        inner.digest.take();
        &mut inner.value
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let digest = self.0.digest.get_or_init(|| digest(&self.0.value));
        state.write_u128(*digest);
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Shared<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.value == other.0.value
    }
}

impl<T: Eq> Eq for Shared<T> {}
