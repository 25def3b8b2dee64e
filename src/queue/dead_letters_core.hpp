// SPDX-License-Identifier: MIT
// What stands behind DeadLetters. An entry's work state lives in dead.ring's only group, `operator`: ready = open,
// handed = in an operator's hands, settled = redriven or discarded. Threads: one.
#pragma once

#include <memory>
#include <vector>

#include "flow/shared_group.hpp"
#include "format/snapshot.hpp"
#include "queue/attachment.hpp"
#include "rondo/dead_letter.hpp"

namespace rondo::detail {

class ProducerCore;

class DeadLettersCore {
public:
    explicit DeadLettersCore(std::shared_ptr<Attachment> a);
    DeadLettersCore(const DeadLettersCore&) = delete;
    DeadLettersCore& operator=(const DeadLettersCore&) = delete;

    Result<std::vector<DeadLetter>> list(const DeadFilter& filter) const;
    Result<Redriven> redrive(const DeadFilter& filter, bool execute);
    Result<Redriven> discard(const DeadFilter& filter, std::string_view reason, bool execute);

private:
    Result<std::vector<DeadLetter>> open_letters(DeadFilter filter) const;
    enum class Moved { yes, skipped, no_credit };
    Result<Moved> redrive_one(const DeadLetter& letter);
    Result<ProducerCore*> producer();
    bool copied_before(const format::Origin& origin) const;
    void settle(const flow::Leased& lease, format::Outcome outcome, std::string_view why);

    std::shared_ptr<Attachment> a_;
    flow::SharedGroup group_;
    ProducerCore* producer_ = nullptr;  // of the redrive under way
};

}  // namespace rondo::detail
