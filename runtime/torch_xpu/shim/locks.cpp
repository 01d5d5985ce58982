// Locks that fork() waits for: it copies a mutex that another thread holds as locked for ever.
#include "shim.h"

#include <pthread.h>

#include <array>

namespace triton_xe {
namespace {

using Locks = std::array<std::mutex, static_cast<std::size_t>(Lock::kCount)>;

Locks& locks();

void lock_all() {
  for (auto& one : locks()) {
    one.lock();
  }
}

void unlock_all() {
  for (auto& one : locks()) {
    one.unlock();
  }
}

Locks& locks() {
  static auto* only = [] {
    auto* made = new Locks;
    pthread_atfork(lock_all, unlock_all, unlock_all);
    return made;
  }();
  return *only;
}

}  // namespace

std::mutex& mutex_of(Lock lock) {
  return locks()[static_cast<std::size_t>(lock)];
}

}  // namespace triton_xe
