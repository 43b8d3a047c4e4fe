//! The devices whose streams have used an allocation.

use super::DeviceNumber;

/// The devices of the tickets in an access history. Usually there is one, and then no ticket is
/// asked for its device. A number instead of an enumeration, because every operation compares it
/// for every operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Users(u64);

impl Users {
    /// No ticket was noted. No device has this number.
    const NONE: Self = Self(0);
    /// The tickets are of several devices. No device has this number.
    const SEVERAL: Self = Self(u64::MAX);

    /// Notes a ticket of this device. Returns whether all tickets are of it.
    #[inline(always)]
    pub(super) fn is_only(&mut self, device: DeviceNumber) -> bool {
        self.0 == device.get() || self.note(device)
    }

    #[cold]
    fn note(&mut self, device: DeviceNumber) -> bool {
        *self = match *self {
            Self::NONE => Self(device.get()),
            _ => Self::SEVERAL,
        };
        *self != Self::SEVERAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_device_is_the_only_user_until_another_is_noted() {
        let [one, other] = [(); 2].map(|()| DeviceNumber::next());
        let mut users = Users::default();
        assert!(users.is_only(one) && users.is_only(one));
        assert!(!users.is_only(other));
        assert!(
            !users.is_only(one),
            "the other's tickets may still be there"
        );
    }
}
