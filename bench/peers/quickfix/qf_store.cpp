// The FileStore of QuickFIX C++: FOLDER N appends N messages of 200 bytes, each with its number as
// the engine does it, and reads 1,000 of them for a resend. It flushes after each write and never
// syncs. Prints the nanoseconds for each.
#include <FileStore.h>
#include <SessionID.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: qf_store FOLDER N\n";
    return 2;
  }
  using Clock = std::chrono::steady_clock;
  const auto each = [](Clock::time_point begun, int n) {
    return std::chrono::duration<double, std::nano>(Clock::now() - begun).count() / n;
  };
  const int n = std::atoi(argv[2]);
  try {
    FIX::FileStoreFactory factory(argv[1]);
    FIX::MessageStore* store = factory.create(FIX::SessionID("FIX.4.4", "US", "THEM"));
    const std::string message(200, 'x');
    auto begun = Clock::now();
    for (int seq = 1; seq <= n; ++seq) {
      store->set(seq, message);
      store->incrNextSenderMsgSeqNum();
    }
    const double append = each(begun, n);
    begun = Clock::now();
    std::vector<std::string> read;
    store->get(n / 2, n / 2 + 999, read);
    if (read.size() != 1000) throw std::runtime_error("not all were read");
    std::cout << append << " " << each(begun, 1000) << std::endl;
    factory.destroy(store);
  } catch (const std::exception& error) {
    std::cerr << "qf_store: " << error.what() << "\n";
    return 1;
  }
}
