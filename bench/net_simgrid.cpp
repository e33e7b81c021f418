// The same run as net_ours.c by SimGrid, the leanest way it has: actors with
// put_async and get_async, or sendto for bare flows.
//   net_simgrid PLATFORM.xml JOB [--cfg=...]
#include <simgrid/s4u.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace sg4 = simgrid::s4u;

static std::vector<sg4::Host *> hosts;
static long messages;
static double last, sum, size;
static int n;

static void exchange(int me, int to, int from, double sent)
{
    static int token;
    int *got;
    auto *out = sg4::Mailbox::by_name(std::to_string(me) + ">" +
                                      std::to_string(to));
    auto *in = sg4::Mailbox::by_name(std::to_string(from) + ">" +
                                     std::to_string(me));
    auto c1 = out->put_async(&token, (uint64_t)sent);
    auto c2 = in->get_async<int>(&got);
    c1->wait();
    c2->wait();
    messages++;
}

static void ring(int r)
{
    for (int s = 0; s < 2 * (n - 1); s++)
        exchange(r, (r + 1) % n, (r + n - 1) % n, size / n);
    last = std::max(last, sg4::Engine::get_clock());
}

static void halving(int r)
{
    for (int d = n / 2; d > 0; d /= 2)
        exchange(r, r ^ d, r ^ d, size / n * d);
    for (int d = 1; d < n; d *= 2)
        exchange(r, r ^ d, r ^ d, size / n * d);
    last = std::max(last, sg4::Engine::get_clock());
}

static void flow(int src, int dst, double bytes)
{
    sg4::Comm::sendto(hosts[src], hosts[dst], (uint64_t)bytes);
    sum += sg4::Engine::get_clock();
}

static uint64_t state = 12345;

static uint64_t lcg()
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static void permutation(int rounds)
{
    std::vector<int> p(n);
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < n; i++)
            p[i] = i;
        for (int i = n - 1; i > 0; i--)
            std::swap(p[i], p[lcg() % (i + 1)]);
        for (int i = 0; i < n; i++)
            if (p[i] != i) {
                double bytes = 1e6 * (double)(1 + lcg() % 100000);
                sg4::Actor::create("f", hosts[i], flow, i, p[i], bytes);
                messages++;
            }
    }
}

int main(int argc, char **argv)
{
    sg4::Engine e(&argc, argv);
    e.load_platform(argv[1]);
    hosts = e.get_all_hosts();
    n = (int)hosts.size();
    std::sort(hosts.begin(), hosts.end(), [](auto *a, auto *b) {
        return std::atoi(a->get_cname() + 5) < std::atoi(b->get_cname() + 5);
    });
    std::string job = argv[2];
    size = std::atof(job.c_str() + job.find(':') + 1);
    std::clock_t start = std::clock();
    if (job[0] == 'p')
        permutation((int)size);
    else
        for (int r = 0; r < n; r++)
            sg4::Actor::create("r", hosts[r], job[0] == 'r' ? ring : halving,
                               r);
    e.run();
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    std::printf("%ld %.9f %.3f %.1f\n", messages,
                job[0] == 'p' ? sum / (double)messages : last,
                (double)(std::clock() - start) / CLOCKS_PER_SEC,
                (double)use.ru_maxrss / 1024);
}
