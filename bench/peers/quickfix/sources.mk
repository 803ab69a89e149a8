# Builds qf_throughput with a QuickFIX C++ whose sources lie in SOURCES, and which has no message
# classes of its own: those of the installed headers are taken. All goes to OUT.
CXX ?= g++
CXXFLAGS ?= -O2 -g1
INSTALLED ?= /usr/include/quickfix
FLAGS = -std=c++14 $(CXXFLAGS) -w -DHAVE_STD_SHARED_PTR

# The binding of Python is no part of the engine.
NAMES := $(filter-out QuickfixPython,$(basename $(notdir $(wildcard $(SOURCES)/*.cpp))))
OBJECTS := $(NAMES:%=$(OUT)/objects/%.o)
HEADERS := $(OUT)/headers/fix42/ExecutionReport.h

$(OUT)/qf_throughput: qf_throughput.cpp settings.hpp execution_report.hpp $(OBJECTS) $(HEADERS)
	$(CXX) $(FLAGS) -I$(OUT)/headers -o $@ $< $(OBJECTS) -lpthread

$(OUT)/objects/%.o: $(SOURCES)/%.cpp
	@mkdir -p $(OUT)/objects
	$(CXX) $(FLAGS) -I$(SOURCES) -c -o $@ $<

# The classes include what lies beside their folder, which must be the headers of these sources.
$(HEADERS):
	@mkdir -p $(OUT)/headers
	cp $(SOURCES)/*.h $(SOURCES)/*.hpp $(OUT)/headers
	cp -r $(INSTALLED)/fix42 $(OUT)/headers
